//! Socket filters: the same instructions on the bytes of a packet (bpf(4); Linux's
//! Documentation/networking/filter.rst).

use super::code::*;
use super::{Instruction, Invalid, check_with, run_with};

/// Offsets from here on select ancillary data (SKF_AD_OFF). Those below would select headers before
/// the packet (SKF_NET_OFF, SKF_LL_OFF), which do not exist here.
const BESIDE: u32 = -0x1000i32 as u32;
const BEYOND: u32 = 1 << 31;

/// The size of an instruction in a program's memory (`struct sock_filter`).
pub const STEP: usize = 8;

/// The ancillary data of a packet (SKF_AD_*).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// The protocol in its link-layer header.
    Protocol = 0,
    /// The kind of its receiver (PACKET_*): 0 for this machine.
    Kind = 4,
    /// The interface that received it.
    Interface = 8,
    /// Its mark (SO_MARK).
    Mark = 20,
    /// The queue of the device.
    Queue = 24,
    /// The kind of the device (ARPHRD_*).
    Hardware = 28,
    /// The CPU that handles it.
    Cpu = 36,
    /// The VLAN tag, whether there is one, and the VLAN's protocol.
    Vlan = 44,
    HasVlan = 48,
    /// A random number.
    Random = 56,
    VlanProtocol = 60,
}

/// All of them.
const ALL: [Beside; 11] = [
    Beside::Protocol,
    Beside::Kind,
    Beside::Interface,
    Beside::Mark,
    Beside::Queue,
    Beside::Hardware,
    Beside::Cpu,
    Beside::Vlan,
    Beside::HasVlan,
    Beside::Random,
    Beside::VlanProtocol,
];

/// A ← A ^ X, encoded as ancillary data (SKF_AD_ALU_XOR_X).
const XOR_X: u32 = 40;

fn beside(k: u32) -> Option<Beside> {
    let number = k.wrapping_sub(BESIDE);
    ALL.into_iter().find(|&known| known as u32 == number)
}

/// A packet, as a filter reads it.
pub trait Packet {
    /// Its bytes, from where the socket's data begins.
    fn bytes(&self) -> &[u8];

    /// An item of ancillary data; if there is none, the filter ends.
    fn beside(&self, what: Beside) -> Option<u32>;
}

/// Checks a filter as [`super::check`] does, but allows all loads: one beyond the data ends the
/// filter.
///
/// # Errors
/// The first invalid instruction; 0 if the filter is empty or too long, or `written` too short.
pub fn check(program: &[Instruction], written: &mut [u16]) -> Result<(), Invalid> {
    check_with(program, written, |one| match one.code {
        LD_WORD | LD_HALF | LD_BYTE if one.k >= BEYOND => is_xor(one.k) || beside(one.k).is_some(),
        LD_WORD | LD_HALF | LD_BYTE | LD_WORD_AT | LD_HALF_AT | LD_BYTE_AT | LDX_HEADER => true,
        MOD => one.k != 0,
        code => code == MOD | WITH_X,
    })
}

fn is_xor(k: u32) -> bool {
    k == BESIDE.wrapping_add(XOR_X)
}

/// The `size` bytes at `at`, in network byte order.
fn load(packet: &impl Packet, at: u32, size: usize) -> Option<u32> {
    let at = Some(at as usize).filter(|_| at < BEYOND)?;
    let read = packet.bytes().get(at..)?.get(..size)?;
    let number = |number, &byte: &u8| number << 8 | u32::from(byte);
    Some(read.iter().fold(0, number))
}

/// Runs a filter; returns how many bytes of the packet the socket gets, 0 to drop the packet.
pub fn run(program: &[Instruction], packet: &impl Packet) -> u32 {
    let known = |k: u32, size: usize| match beside(k) {
        Some(what) => packet.beside(what),
        None => load(packet, k, size),
    };
    let word = |k: u32, a: u32, x: u32| match k {
        k if is_xor(k) => Some(a ^ x),
        k => known(k, 4),
    };
    let other = |one: &Instruction, a: u32, x: u32| match one.code {
        LD_HALF | LD_BYTE if is_xor(one.k) => Some(a ^ x),
        LD_HALF => known(one.k, 2),
        LD_BYTE => known(one.k, 1),
        LD_WORD_AT => load(packet, one.k.wrapping_add(x), 4),
        LD_HALF_AT => load(packet, one.k.wrapping_add(x), 2),
        LD_BYTE_AT => load(packet, one.k.wrapping_add(x), 1),
        LDX_HEADER => load(packet, one.k, 1).map(|byte| (byte & 0xf) << 2),
        MOD => a.checked_rem(one.k),
        code if code == MOD | WITH_X => a.checked_rem(x),
        _ => None,
    };
    run_with(program, packet.bytes().len() as u32, word, other)
}
