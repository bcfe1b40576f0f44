"""The compiler's half: dataflow graphs of scalar operations. It knows no robot."""
