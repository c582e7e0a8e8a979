"""The topology ConfigMaps on a cluster: one for the cluster, one for each Node.

:mod:`nicrails_faker.topologies.store` reads and changes them, :mod:`nicrails_faker.topologies.config_maps` knows what they
are; both are for all services. The rest is the service ``nicrails-faker topology``.
"""
