"""The plain implementations that define what each kernel must equal.

Written in the dtype of their inputs, without casts: run on float64 inputs they are the truth that the
kernels are judged by.
"""
