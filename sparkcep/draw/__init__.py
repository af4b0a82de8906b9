"""Pictures and pages: draws plans, matches and query metrics as SVG, HTML and plots."""
