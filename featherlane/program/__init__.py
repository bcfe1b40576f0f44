"""Programs: dataflow graphs of scalar operations that may call each other. They know no robot."""
