"""KG114: a workload does not lie inside the envelope, or does not say all that a case needs."""

from __future__ import annotations

from kgate.lint.rule import ERROR, Example, Rule

RULE = Rule(
    code="KG114",
    name="bad-workload",
    severity=ERROR,
    summary=("A workload does not lie inside the envelope, or does not say all that a case needs."),
    why=(
        "Workloads carry the lines of the baselines. One that the kernel does not serve measures the "
        "fallback, or nothing."
    ),
    remedy=("Change the workload, or widen the envelope."),
    covers=(
        "bad-workload",
        "workload-choice",
        "workload-dtype",
        "workload-incomplete",
        "workload-outside",
        "workload-range",
        "workload-unknown",
    ),
    invalid=(
        Example(
            """
            from kgate import Dim, Envelope, Tensor, Workload, kernel


            def double_eager(x):
                return x * 2


            @kernel(
                reference=double_eager,
                fallback=double_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T")},
                    outputs={"y": Tensor("N", "T")},
                    dtypes={"T": ("float16", "float32")},
                    dims={"N": Dim(1, 1024)},
                    targets=("cuda:sm_80+",),
                ),
                workloads=(Workload(N=4096, T="float16", source="somewhere"),),
                                      ^^^^
            )
            def double(x):
                ...
        """
        ),
    ),
    valid=(
        Example(
            """
            from kgate import Dim, Envelope, Tensor, Workload, kernel


            def double_eager(x):
                return x * 2


            @kernel(
                reference=double_eager,
                fallback=double_eager,
                envelope=Envelope(
                    inputs={"x": Tensor("N", "T")},
                    outputs={"y": Tensor("N", "T")},
                    dtypes={"T": ("float16", "float32")},
                    dims={"N": Dim(1, 1024)},
                    targets=("cuda:sm_80+",),
                ),
                workloads=(Workload(N=512, T="float16", source="somewhere"),),
            )
            def double(x):
                ...
        """
        ),
    ),
)
