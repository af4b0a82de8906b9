"""The engine over a stream. Rows of many keys in any order and a watermark go in. Final matches and the saved state of each key
come out."""
