//! membarrier(2) and rseq(2): memory ordering on other CPUs, and the number of a program's CPU.

use linux_raw_sys::general::*;

use super::path::check_flags;
use crate::errno::{Errno, Result};
use crate::task::membarrier::{self, Scope};
use crate::task::{current, rseq as area};

/// RSEQ_FLAG_UNREGISTER (include/uapi/linux/rseq.h)
const UNREGISTER: u32 = 1;

/// rseq(2)
pub fn rseq(address: usize, len: u32, flags: u32, signature: u32) -> Result<usize> {
    check_flags(flags, abi::options::RSEQ.mask() as u32)?;
    let change = if flags & UNREGISTER != 0 {
        area::unregister
    } else {
        area::register
    };
    change(address, len as usize, signature)?;
    Ok(0)
}

type Command = membarrier_cmd;

/// Commands, the threads that each orders, and the registration that it requires, if any.
const COMMANDS: [(Command, Scope, u32); 5] = [
    (Command::MEMBARRIER_CMD_GLOBAL, Scope::All, 0),
    (Command::MEMBARRIER_CMD_GLOBAL_EXPEDITED, Scope::All, 0),
    (
        Command::MEMBARRIER_CMD_PRIVATE_EXPEDITED,
        Scope::Space,
        Command::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED as u32,
    ),
    (
        Command::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE,
        Scope::Space,
        Command::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE as u32,
    ),
    (
        Command::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ,
        Scope::Space,
        Command::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ as u32,
    ),
];

const REGISTRATIONS: u32 = Command::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED as u32
    | Command::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED as u32
    | Command::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE as u32
    | Command::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ as u32;
const QUERY: u32 = Command::MEMBARRIER_CMD_QUERY as u32;
/// MEMBARRIER_CMD_GET_REGISTRATIONS
const GET_REGISTRATIONS: u32 = 1 << 9;
/// MEMBARRIER_CMD_FLAG_CPU
const ONE_CPU: u32 = 1;

/// All commands; QUERY has no bit.
const KNOWN: u32 = {
    let (mut all, mut at) = (GET_REGISTRATIONS | REGISTRATIONS, 0);
    while at < COMMANDS.len() {
        all |= COMMANDS[at].0 as u32;
        at += 1;
    }
    all
};
const _: () = assert!(
    abi::options::MEMBARRIER.mask() == KNOWN as u64 && abi::options::MEMBARRIER.has(QUERY as u64),
    "abi and membarrier disagree"
);

/// membarrier(2)
pub fn membarrier(command: u32, flags: u32, _cpu: i32) -> Result<usize> {
    let rseq = Command::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ as u32;
    check_flags(flags, if command == rseq { ONE_CPU } else { 0 })?;
    let thread = current();
    let process = thread.process();
    let known = COMMANDS
        .iter()
        .find(|(number, ..)| *number as u32 == command);
    match known {
        Some((_, scope, wanted)) => {
            if process.barriers() & wanted != *wanted {
                return Err(Errno::EPERM);
            }
            membarrier::wait(*scope);
            Ok(0)
        }
        None if command == QUERY => Ok(KNOWN as usize),
        None if command == GET_REGISTRATIONS => Ok(process.barriers() as usize),
        None if command.count_ones() == 1 && command & REGISTRATIONS != 0 => {
            process.register_barrier(command);
            Ok(0)
        }
        None => Err(Errno::EINVAL),
    }
}
