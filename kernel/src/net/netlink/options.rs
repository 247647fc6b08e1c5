//! Options of netlink sockets (SOL_NETLINK): the form of replies, and membership of groups, to
//! which the kernel sends nothing.

use super::ROUTE;
use crate::errno::{Errno, Result};
use crate::net::options::{bytes, number};
use crate::task::require;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use linux_raw_sys::general::CAP_NET_ADMIN;

/// The level of these options.
pub const SOL_NETLINK: u32 = 270;
/// Membership of one group.
const ADD_MEMBERSHIP: u32 = 1;
const DROP_MEMBERSHIP: u32 = 2;
/// The groups, as words of bits.
pub const LIST_MEMBERSHIPS: u32 = 9;
/// Switches: control messages with the group of a message, errors and overruns of group messages,
/// and the form of acknowledgements. No error has a text for NETLINK_EXT_ACK.
pub const PKTINFO: u32 = 3;
const BROADCAST_ERROR: u32 = 4;
pub const NO_ENOBUFS: u32 = 5;
pub const CAP_ACK: u32 = 10;
const EXT_ACK: u32 = 11;
const SWITCHES: [u32; 5] = [PKTINFO, BROADCAST_ERROR, NO_ENOBUFS, CAP_ACK, EXT_ACK];

const _: () = assert!(abi::options::NETLINK.is_handled_by(&[
    ADD_MEMBERSHIP as u64,
    DROP_MEMBERSHIP as u64,
    PKTINFO as u64,
    BROADCAST_ERROR as u64,
    NO_ENOBUFS as u64,
    LIST_MEMBERSHIPS as u64,
    CAP_ACK as u64,
    EXT_ACK as u64,
]));

/// The minimum number of groups of a protocol, and that of NETLINK_ROUTE (RTNLGRP_MAX).
const GROUPS: u32 = 32;
const ROUTE_GROUPS: u32 = 36;
/// Groups that require privileges: RTNLGRP_IPV4_MROUTE_R and RTNLGRP_IPV6_MROUTE_R.
const GUARDED: [u32; 2] = [30, 31];

/// The options of a socket.
#[derive(Default)]
pub struct Options {
    /// A bit for each option that is on, by its number.
    switches: AtomicU32,
    /// A bit for each group, from 1 on.
    groups: AtomicU64,
    /// Whether the socket ever joined groups: then they are listed.
    listed: AtomicBool,
}

fn count(protocol: u32) -> u32 {
    if protocol == ROUTE {
        ROUTE_GROUPS
    } else {
        GROUPS
    }
}

/// EPERM for a group that requires privileges.
fn check_group(protocol: u32, group: u32) -> Result<()> {
    if protocol == ROUTE && GUARDED.contains(&group) {
        require(CAP_NET_ADMIN)?;
    }
    Ok(())
}

impl Options {
    /// Whether an option is on.
    pub fn is_on(&self, name: u32) -> bool {
        self.switches.load(Acquire) >> name & 1 != 0
    }

    /// The first 32 groups, as in addresses.
    pub fn groups(&self) -> u32 {
        self.groups.load(Acquire) as u32
    }

    /// Whether the socket is a member of a group.
    pub fn listens_to(&self, group: u32) -> bool {
        self.groups.load(Acquire) >> (group - 1) & 1 != 0
    }

    /// Checks the groups of an address to which the socket is to be bound.
    pub fn check(&self, protocol: u32, groups: u32) -> Result<()> {
        let named = |group: u32| groups >> (group - 1) & 1 != 0;
        GUARDED
            .into_iter()
            .filter(|&group| named(group))
            .try_for_each(|group| check_group(protocol, group))
    }

    /// Sets the membership of the first 32 groups.
    pub fn listen(&self, groups: u32) {
        if groups != 0 {
            self.listed.store(true, Release);
        }
        let change = |old: u64| Some(old >> 32 << 32 | u64::from(groups));
        _ = self.groups.fetch_update(AcqRel, Acquire, change);
    }

    /// setsockopt(SOL_NETLINK)
    pub fn set(&self, protocol: u32, name: u32, value: &[u8]) -> Result<()> {
        // As on Linux, a value that is too short is 0.
        let given = number(value).unwrap_or(0) as u32;
        match name {
            ADD_MEMBERSHIP | DROP_MEMBERSHIP => {
                self.listed.store(true, Release);
                if given == 0 || given > count(protocol) {
                    return Err(Errno::EINVAL);
                }
                let bit = 1 << (given - 1);
                if name == ADD_MEMBERSHIP {
                    check_group(protocol, given)?;
                    self.groups.fetch_or(bit, AcqRel);
                } else {
                    self.groups.fetch_and(!bit, AcqRel);
                }
            }
            name if SWITCHES.contains(&name) => {
                if given != 0 {
                    self.switches.fetch_or(1 << name, AcqRel);
                } else {
                    self.switches.fetch_and(!(1 << name), AcqRel);
                }
            }
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(())
    }

    /// getsockopt(SOL_NETLINK)
    pub fn get(&self, protocol: u32, name: u32) -> Result<Vec<u8>> {
        match name {
            LIST_MEMBERSHIPS if !self.listed.load(Acquire) => Ok(Vec::new()),
            LIST_MEMBERSHIPS if count(protocol) > 32 => bytes(self.groups.load(Acquire)),
            LIST_MEMBERSHIPS => bytes(self.groups()),
            name if SWITCHES.contains(&name) => bytes(u32::from(self.is_on(name))),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
}
