//! The network of a machine: QEMU's user network, which needs no privileges. The guest sees a link
//! with one host, this machine, which forwards what the guest sends as connections of its own
//! programs.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::initramfs::Initramfs;

/// The modules that Debian's Linux needs for the card, in order.
pub const LINUX_MODULES: [&str; 4] = [
    "drivers/virtio/virtio_mmio",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
];

/// The addresses that QEMU's network assigns by DHCP, used without DHCP here: the guest's address
/// and network, the router, which is this machine, and a name server, which forwards to this
/// machine's.
const ADDRESS: &str = "10.0.2.15";
const MASK: &str = "255.255.255.0";
const ROUTER: &str = "10.0.2.2";
const NAMES: &str = "10.0.2.3";

/// The commands for PID 1, one per line, and the file with them.
const COMMANDS_PATH: &str = "stile/network";

/// A port of this machine's loopback address that is forwarded to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    here: u16,
    guest: u16,
    udp: bool,
}

impl FromStr for Port {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (ports, udp) = match text.strip_suffix("/udp") {
            Some(ports) => (ports, true),
            None => (text.strip_suffix("/tcp").unwrap_or(text), false),
        };
        let (here, guest) = ports.split_once(':').context("HOST:GUEST is wanted")?;
        let number = |text: &str| text.parse().with_context(|| format!("{text} is no port"));
        let (here, guest) = (number(here)?, number(guest)?);
        if guest == 0 {
            bail!("no program has port 0");
        }
        Ok(Port { here, guest, udp })
    }
}

/// QEMU's arguments for the card and its network.
pub fn words(ports: &[Port]) -> Vec<String> {
    let mut network = "user,id=network,ipv6=off".to_owned();
    for Port { here, guest, udp } in ports {
        let protocol = if *udp { "udp" } else { "tcp" };
        network += &format!(",hostfwd={protocol}:127.0.0.1:{here}-:{guest}");
    }
    [
        "-netdev",
        &network,
        "-device",
        "virtio-net-device,netdev=network",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Makes PID 1 set up the network, and programs find the name server.
pub fn fill(tree: &mut Initramfs) {
    let commands =
        format!("ifconfig eth0 {ADDRESS} netmask {MASK}\nroute add default gw {ROUTER} dev eth0\n");
    tree.text(COMMANDS_PATH, commands.as_bytes());
    tree.text(
        "etc/resolv.conf",
        format!("nameserver {NAMES}\n").as_bytes(),
    );
    let hosts = format!("127.0.0.1 localhost\n::1 localhost\n{ADDRESS} guest\n");
    tree.text("etc/hosts", hosts.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports() {
        let port = |here, guest, udp| Port { here, guest, udp };
        assert_eq!("8080:80".parse::<Port>().unwrap(), port(8080, 80, false));
        assert_eq!(
            "8080:80/tcp".parse::<Port>().unwrap(),
            port(8080, 80, false)
        );
        assert_eq!("0:53/udp".parse::<Port>().unwrap(), port(0, 53, true));
        for wrong in [
            "80", "80:", "a:80", "80:65536", "1:2:3", "80:0", "1:2/sctp", "-1:5",
        ] {
            assert!(wrong.parse::<Port>().is_err(), "{wrong}");
        }
        let words = words(&[port(8080, 80, false), port(5353, 53, true)]).join(" ");
        assert!(words.contains(",hostfwd=tcp:127.0.0.1:8080-:80,hostfwd=udp:127.0.0.1:5353-:53 "));
    }
}
