//! A network interface whose link ends in a test on the host, which supplies received frames and
//! takes sent ones.

use crate::errno::Result;
use crate::hash::Keyed;
use crate::mm::heap::try_arc;
use crate::mm::virtio_net::{Checksum, Frame};
use crate::net::ether::addresses::{self, Address};
use crate::net::ether::interface::{self, QUEUE};
use crate::net::ether::{self, Card, Interface};
use crate::sync::{Mutex, Once, SleepMutex};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use ip::Mac;

struct Wire;

static PLUGGED: Once<(Arc<Interface>, SleepMutex<ether::In>)> = Once::new();
static SENT: Mutex<VecDeque<Vec<u8>>> = Mutex::new(VecDeque::new());

impl Card for Wire {
    fn send(&self, frame: Frame, _: Option<Checksum>) -> bool {
        let mut sent = SENT.lock();
        let has_room = sent.len() < QUEUE as usize;
        if has_room {
            sent.push_back(frame.bytes().to_vec());
        }
        has_room
    }

    fn is_link_up(&self) -> bool {
        true
    }

    fn finishes_checksums(&self) -> bool {
        false
    }
}

/// Adds the interface with an address, unless it exists.
///
/// # Errors
/// The errors of adding an interface and an address.
pub fn plug(mac: [u8; 6], ip: IpAddr, bits: u8) -> Result<()> {
    if PLUGGED.get().is_some() {
        return Ok(());
    }
    let interface = interface::add(try_arc(Wire)?, Mac(mac), interface::MOST_MTU)?;
    interface.set_up(true)?;
    addresses::add(&interface, Address::new(ip, bits)?)?;
    PLUGGED.call_once(|| (interface, SleepMutex::new(ether::In::new(Keyed))));
    Ok(())
}

/// Passes a received frame to the interface.
///
/// # Panics
/// If there is no interface, or the frame is too long for one.
pub fn give(bytes: &[u8]) {
    let (interface, input) = PLUGGED.get().expect("a wire");
    let mut frame = Frame::new(0).expect("memory");
    frame.push(bytes).expect("a frame of usual length");
    ether::receive(interface, &mut input.lock(), &frame);
}

/// Takes the first frame that was sent.
pub fn take() -> Option<Vec<u8>> {
    SENT.lock().pop_front()
}
