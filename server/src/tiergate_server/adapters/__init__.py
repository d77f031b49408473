"""The adapters: what stands behind the seams of the domain, one module for each SDK."""
