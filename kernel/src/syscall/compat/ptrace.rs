//! Requests that 32-bit Arm has in addition to those of all architectures
//! (`arch/arm/include/uapi/asm/ptrace.h`).

use alloc::vec::Vec;

use crate::arch::regset;
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};
use crate::syscall::layout::Compat;
use crate::syscall::ptrace as calls;
use crate::task::ptrace;

const PEEKUSR: usize = 3;
const POKEUSR: usize = 6;
const GETREGS: usize = 12;
const SETREGS: usize = 13;
const GET_THREAD_AREA: usize = 22;
const SET_SYSCALL: usize = 23;
const GETVFPREGS: usize = 27;
const SETVFPREGS: usize = 28;
const GETREGSET: usize = 0x4204;
const SETREGSET: usize = 0x4205;

/// The sets of registers (NT_PRSTATUS, NT_ARM_VFP, NT_ARM_TLS, NT_ARM_SYSTEM_CALL).
const GENERAL: u32 = 1;
const VFP: u32 = 0x400;
const THREAD_POINTER: u32 = 0x401;
const SYSTEM_CALL: u32 = 0x404;

/// The size of `struct user`, which begins with the general registers.
const USER: usize = 296;

/// Offsets for PEEKUSR beyond the registers: the start of the program's code and data, and the end
/// of its code.
const CODE: usize = 0x10000;
const DATA: usize = 0x10004;
const CODE_END: usize = 0x10008;

pub fn ptrace(request: usize, tid: i32, address: usize, data: usize) -> Result<usize> {
    match request {
        PEEKUSR => {
            let word = peek_user(tid, address)?;
            UserPtr::new(data).write(&word)?;
        }
        POKEUSR => poke_user(tid, address, data as u32)?,
        GETREGS => copy_out(tid, GENERAL, data)?,
        SETREGS => copy_in(tid, GENERAL, data)?,
        GETVFPREGS => copy_out(tid, VFP, data)?,
        SETVFPREGS => copy_in(tid, VFP, data)?,
        GET_THREAD_AREA => copy_out(tid, THREAD_POINTER, data)?,
        SET_SYSCALL => set(tid, SYSTEM_CALL, 0, &(data as i32).to_ne_bytes())?,
        // Only 64-bit tracers can access other register sets.
        GETREGSET | SETREGSET if ![GENERAL, VFP].contains(&(address as u32)) => {
            ptrace::with_stopped(tid, |_, _| Ok(()))?;
            return Err(Errno::EINVAL);
        }
        _ => return calls::ptrace::<Compat>(request, tid, address, data),
    }
    Ok(0)
}

/// A register set of a stopped thread, in the layout of this tracer's own.
fn get(tid: i32, kind: u32) -> Result<Vec<u8>> {
    ptrace::with_stopped(tid, |thread, _| regset::get(&thread.arch, true, kind))
}

/// Changes bytes of a register set from byte `from` on.
fn set(tid: i32, kind: u32, from: usize, bytes: &[u8]) -> Result<()> {
    ptrace::with_stopped(tid, |thread, _| {
        regset::set(&thread.arch, true, kind, from, bytes)?;
        thread.registers_changed();
        Ok(())
    })
}

fn copy_out(tid: i32, kind: u32, to: usize) -> Result<()> {
    let set = get(tid, kind)?;
    UserSlice::new(to, set.len()).copy_out(&set)
}

fn copy_in(tid: i32, kind: u32, from: usize) -> Result<()> {
    let len = get(tid, kind)?.len();
    set(tid, kind, 0, &UserPtr::<u8>::new(from).read_vec(len)?)
}

fn peek_user(tid: i32, offset: usize) -> Result<u32> {
    let (set, program) = ptrace::with_stopped(tid, |thread, _| {
        let set = regset::get(&thread.arch, true, GENERAL)?;
        let space = thread.space();
        Ok((set, space.map(|space| space.program()).unwrap_or_default()))
    })?;
    if !offset.is_multiple_of(4) {
        return Err(Errno::EIO);
    }
    match set.get(offset..offset + 4) {
        Some(word) => Ok(u32::from_ne_bytes(word.try_into().unwrap_or_default())),
        None if offset == CODE => Ok(program.code.start as u32),
        None if offset == DATA => Ok(program.data.start as u32),
        None if offset == CODE_END => Ok(program.code.end as u32),
        None if offset < USER => Ok(0),
        None => Err(Errno::EIO),
    }
}

fn poke_user(tid: i32, offset: usize, word: u32) -> Result<()> {
    ptrace::with_stopped(tid, |_, _| Ok(()))?;
    if !offset.is_multiple_of(4) || offset >= USER {
        return Err(Errno::EIO);
    }
    set(tid, GENERAL, offset, &word.to_ne_bytes())
}
