"""Write-back: writes that are acknowledged once the journal has them, and carried out at the origin afterwards.

acceptance ──> journal ──> pending objects, in every worker ──> acknowledged
                  └──────> drainer ──> origin, in the order of forebay.policy.drain_order ──> settled
"""
