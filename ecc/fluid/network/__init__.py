"""Networks as fluid: each model turns a protocol's laws into curves of rates and queues."""
