"""The public interface: the model with its methods, and the functions on robots and programs."""
