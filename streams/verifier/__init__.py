"""The demo's verifier: what was promised, minute by minute, against what the provider saw and the ledger says.

It imports nothing of the engine (an import contract holds it to that) and reads only the YAML in `examples/`, the
provider's own log and the ledger's view. Where the engine uses segments and an index, this walks minutes.
"""
