# What coding agents expect to find. Built at its first use; `paddock template inspect base` shows it.
FROM debian:bookworm
ENV LANG=C.UTF-8
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      build-essential ca-certificates curl file git golang-go jq less nano nodejs npm openssh-client patch \
      procps python-is-python3 python3 python3-pip python3-venv ripgrep sudo unzip xz-utils zsh \
 && (DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends gh || echo 'gh is not available here') \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
RUN useradd --create-home --uid 1000 --shell /bin/bash agent \
 && echo 'agent ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/agent \
 && chmod 0440 /etc/sudoers.d/agent
USER agent
CMD ["/bin/bash"]
