import Systemd
