//! Network interfaces with a card.

use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::virtio_net::{Checksum, Frame};
use crate::net::packet::taps;
use crate::sync::{Mutex, Once};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use ip::Mac;

use super::addresses::Address;

/// The maximum number of interfaces.
const MOST: usize = 8;
/// The index of the first one, since `lo` has 1.
const FIRST: u32 = 2;
/// The maximum MTU, limited by the size of buffers; the minimum.
pub const MOST_MTU: u32 = 1500;
pub const LEAST_MTU: u32 = 68;
/// The number of packets that may wait for a card (`txqueuelen`).
pub const QUEUE: u32 = 1000;
/// The hardware type (ARPHRD_ETHER).
pub const HARDWARE: u16 = 1;
/// IFF_UP, IFF_BROADCAST, IFF_RUNNING, IFF_MULTICAST and IFF_LOWER_UP.
const UP: u32 = 0x1;
const BROADCAST: u32 = 0x2;
const RUNNING: u32 = 0x40;
const MULTICAST: u32 = 0x1000;
const LOWER_UP: u32 = 0x1_0000;

/// A device that sends frames.
pub trait Card: Send + Sync {
    /// Sends a frame; false if it is dropped because too many wait.
    fn send(&self, frame: Frame, checksum: Option<Checksum>) -> bool;

    /// Whether the link is up.
    fn is_link_up(&self) -> bool;

    /// Whether it completes checksums.
    fn finishes_checksums(&self) -> bool;
}

/// The counters of an interface.
#[derive(Default)]
pub struct Counts {
    /// Received packets and bytes, and packets among them that were dropped.
    pub received: AtomicU64,
    pub received_bytes: AtomicU64,
    pub received_dropped: AtomicU64,
    /// Sent packets and bytes, and packets that were dropped.
    pub sent: AtomicU64,
    pub sent_bytes: AtomicU64,
    pub sent_dropped: AtomicU64,
    /// Received multicast packets.
    pub multicast: AtomicU64,
}

/// An interface.
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// The number in its name, `ethN`.
    number: u32,
    /// The address of its card.
    pub mac: Mac,
    /// Its card.
    pub card: Arc<dyn Card>,
    /// The maximum MTU of its link.
    pub most_mtu: u32,
    mtu: AtomicU32,
    up: AtomicBool,
    /// The number of packet sockets' requests for frames to other machines.
    pub promiscuous: AtomicU32,
    /// Its addresses, in the order in which they were added.
    pub addresses: Mutex<Vec<Address>>,
    /// Its counters.
    pub counts: Counts,
}

static ALL: [Once<Arc<Interface>>; MOST] = [const { Once::new() }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Adds an interface. Called only on the boot CPU.
///
/// # Errors
/// ENOMEM, EAGAIN; ENOSPC: there are too many.
pub fn add(card: Arc<dyn Card>, mac: Mac, mtu: u32) -> Result<Arc<Interface>> {
    let at = COUNT.load(Relaxed);
    let place = ALL.get(at).ok_or(Errno::ENOSPC)?;
    if at == 0 {
        // A machine without a card does not need neighbours.
        super::neighbours::init()?;
        crate::net::inet::tcp::init()?;
    }
    let interface = try_arc(Interface {
        index: FIRST + at as u32,
        number: at as u32,
        mac,
        card,
        most_mtu: mtu,
        mtu: AtomicU32::new(mtu),
        up: AtomicBool::new(false),
        promiscuous: AtomicU32::new(0),
        addresses: Mutex::new(Vec::new()),
        counts: Counts::default(),
    })?;
    place.call_once(|| interface.clone());
    COUNT.store(at + 1, Release);
    Ok(interface)
}

/// All interfaces with a card.
pub fn all() -> impl Iterator<Item = &'static Arc<Interface>> {
    ALL.iter().filter_map(Once::get)
}

/// The interface with this index.
pub fn by_index(index: u32) -> Option<&'static Arc<Interface>> {
    ALL.get(index.checked_sub(FIRST)? as usize)?.get()
}

/// The interface with this name, which ends at the first zero.
pub fn by_name(name: &[u8]) -> Option<&'static Arc<Interface>> {
    let name = name.split(|&byte| byte == 0).next()?;
    all().find(|interface| interface.name_bytes() == name)
}

impl Interface {
    /// Its name, padded as in `struct ifreq`.
    pub fn name(&self) -> [u8; 16] {
        let mut name = [0; 16];
        name[..3].copy_from_slice(b"eth");
        name[3] = b'0' + self.number as u8;
        name
    }

    fn name_bytes(&self) -> [u8; 4] {
        [b'e', b't', b'h', b'0' + self.number as u8]
    }

    /// Its name.
    pub fn text(&self) -> &'static str {
        const NAMES: [&str; MOST] = [
            "eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "eth7",
        ];
        NAMES[self.number as usize]
    }

    /// Its MTU.
    pub fn mtu(&self) -> u32 {
        self.mtu.load(Relaxed)
    }

    /// Sets its MTU.
    ///
    /// # Errors
    /// EINVAL.
    pub fn set_mtu(&self, mtu: u32) -> Result<()> {
        if !(LEAST_MTU..=self.most_mtu).contains(&mtu) {
            return Err(Errno::EINVAL);
        }
        self.mtu.store(mtu, Relaxed);
        super::routing::changed();
        Ok(())
    }

    /// Whether it is administratively up.
    pub fn is_up(&self) -> bool {
        self.up.load(Acquire)
    }

    /// Sets it up or down.
    pub fn set_up(self: &Arc<Self>, up: bool) -> Result<()> {
        if self.up.swap(up, AcqRel) == up {
            return Ok(());
        }
        match up {
            true => super::addresses::link_local(self),
            false => {
                super::addresses::went_down(self);
                taps::went_down(self.index);
                Ok(())
            }
        }
    }

    /// Its flags (IFF_).
    pub fn flags(&self) -> u32 {
        let up = if self.is_up() { UP } else { 0 };
        let link = self.is_up() && self.card.is_link_up();
        let running = if link { RUNNING | LOWER_UP } else { 0 };
        BROADCAST | MULTICAST | up | running
    }

    /// Sends a frame.
    pub(super) fn transmit(&self, frame: Frame, checksum: Option<Checksum>) {
        self.transmit_of(0, frame, checksum);
    }

    /// Sends a frame of the packet socket with number `sender`, or of the kernel; false if it was
    /// dropped.
    pub fn transmit_of(&self, sender: u64, frame: Frame, checksum: Option<Checksum>) -> bool {
        if taps::is_used() && self.is_up() {
            taps::sent(self, frame.bytes(), checksum.is_some(), sender);
        }
        let bytes = frame.bytes().len() as u64;
        if !self.is_up() || !self.card.send(frame, checksum) {
            self.drop_sent();
            return false;
        }
        self.counts.sent.fetch_add(1, Relaxed);
        self.counts.sent_bytes.fetch_add(bytes, Relaxed);
        true
    }

    /// Counts a packet that was dropped before it was sent.
    pub fn drop_sent(&self) {
        self.counts.sent_dropped.fetch_add(1, Relaxed);
    }
}
