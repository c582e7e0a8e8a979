"""The MIG faker: what a Node's annotation asks for becomes its topology, and the Node is told."""
