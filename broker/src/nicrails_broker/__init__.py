"""The broker: discovers one Node's GPU-to-NIC rail record and publishes it.

Dependencies run one way: parsers, naming and join are pure; sources read the host and the GPU Operator's pod; discovery
makes the record; the publisher takes it; the app holds them together; the command line starts it.
"""
