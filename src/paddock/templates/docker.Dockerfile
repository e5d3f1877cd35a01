# `base` with a Docker daemon of its own, for boxes that have a kernel of their own.
FROM base
USER root
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      docker.io docker-compose iptables kmod \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
 && usermod --append --groups docker agent
USER agent
CMD ["/bin/bash"]
