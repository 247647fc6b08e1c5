//! Network interfaces with a card.

use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::virtio_net::{Checksum, Frame};
use crate::sync::{Mutex, Once};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use ip::Mac;

use super::addresses::Address;

/// Interfaces that there can be.
const MOST: usize = 8;
/// The index of the first: `lo` has 1.
const FIRST: u32 = 2;
/// The most that a link takes behind a frame's header, as far as buffers have room; the least.
pub const MOST_MTU: u32 = 1500;
pub const LEAST_MTU: u32 = 68;
/// Packets that may wait for a card (`txqueuelen`).
pub const QUEUE: u32 = 1000;
/// The kind of its hardware (ARPHRD_ETHER).
pub const HARDWARE: u16 = 1;
/// IFF_UP, IFF_BROADCAST, IFF_RUNNING, IFF_MULTICAST and IFF_LOWER_UP.
const UP: u32 = 0x1;
const BROADCAST: u32 = 0x2;
const RUNNING: u32 = 0x40;
const MULTICAST: u32 = 0x1000;
const LOWER_UP: u32 = 0x1_0000;

/// What moves frames.
pub trait Card: Send + Sync {
    /// Sends a frame; false if it is lost, as too many wait.
    fn send(&self, frame: Frame, checksum: Option<Checksum>) -> bool;

    /// Whether the link is up.
    fn is_link_up(&self) -> bool;

    /// Whether it finishes checksums.
    fn finishes_checksums(&self) -> bool;
}

/// What an interface has counted.
#[derive(Default)]
pub struct Counts {
    /// Packets and bytes that came, and packets among them that nobody could take.
    pub received: AtomicU64,
    pub received_bytes: AtomicU64,
    pub received_dropped: AtomicU64,
    /// Packets and bytes that went, and packets that were lost before.
    pub sent: AtomicU64,
    pub sent_bytes: AtomicU64,
    pub sent_dropped: AtomicU64,
    /// Packets that came for several.
    pub multicast: AtomicU64,
}

/// An interface.
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// The number in its name, `ethN`.
    number: u32,
    /// Its card's address.
    pub mac: Mac,
    /// Its card.
    pub card: Arc<dyn Card>,
    /// What its link takes at most behind a frame's header.
    pub most_mtu: u32,
    mtu: AtomicU32,
    up: AtomicBool,
    /// Its addresses, in the order in which they came.
    pub addresses: Mutex<Vec<Address>>,
    /// What it has counted.
    pub counts: Counts,
}

static ALL: [Once<Arc<Interface>>; MOST] = [const { Once::new() }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Adds an interface, called from the boot CPU alone.
///
/// # Errors
/// ENOMEM, EAGAIN; ENOSPC: there are too many.
pub fn add(card: Arc<dyn Card>, mac: Mac, mtu: u32) -> Result<Arc<Interface>> {
    let at = COUNT.load(Relaxed);
    let place = ALL.get(at).ok_or(Errno::ENOSPC)?;
    if at == 0 {
        // A machine without a card has no use for them.
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

/// The interface of this index.
pub fn by_index(index: u32) -> Option<&'static Arc<Interface>> {
    ALL.get(index.checked_sub(FIRST)? as usize)?.get()
}

/// The interface of this name, which ends at the first zero.
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

    /// What packets have at most.
    pub fn mtu(&self) -> u32 {
        self.mtu.load(Relaxed)
    }

    /// Sets what packets have at most.
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

    /// Whether the administrator wants it to work.
    pub fn is_up(&self) -> bool {
        self.up.load(Acquire)
    }

    /// Has it work, or not.
    pub fn set_up(self: &Arc<Self>, up: bool) -> Result<()> {
        if self.up.swap(up, AcqRel) == up {
            return Ok(());
        }
        match up {
            true => super::addresses::link_local(self),
            false => {
                super::addresses::went_down(self);
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
        if !self.is_up() {
            return self.drop_sent();
        }
        let bytes = frame.bytes().len() as u64;
        if !self.card.send(frame, checksum) {
            return self.drop_sent();
        }
        self.counts.sent.fetch_add(1, Relaxed);
        self.counts.sent_bytes.fetch_add(bytes, Relaxed);
    }

    /// A packet was lost that was to go.
    pub fn drop_sent(&self) {
        self.counts.sent_dropped.fetch_add(1, Relaxed);
    }
}
