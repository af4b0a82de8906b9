"""Pictures. Plans, matches and figures of queries go in; SVG, HTML and plots come out."""
