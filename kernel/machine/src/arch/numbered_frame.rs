//! The common part of [`Frame`]s whose registers are an array, indexed by the constants in `reg`.

use super::frame::{CALL, Frame, reg};
use super::regset::AUDIT;
use super::syscall::{Call, ENTRIES, UNKNOWN};
use crate::errno::{Errno, Result};

impl Frame {
    /// A program's initial registers: all zero except the address of its first instruction, the
    /// stack pointer and the first argument.
    pub fn user(entry: usize, sp: usize, argument: usize) -> Self {
        let mut frame = Frame {
            x: [0; reg::COUNT],
            orig_a0: 0,
            syscall: -1,
        };
        frame.x[reg::PC] = entry;
        frame.x[reg::SP] = sp;
        frame.x[reg::A0] = argument;
        frame
    }

    /// The address of the next instruction.
    pub fn pc(&self) -> usize {
        self.x[reg::PC]
    }

    /// Sets the address of the next instruction.
    pub fn set_pc(&mut self, pc: usize) {
        self.x[reg::PC] = pc;
    }

    /// The stack pointer.
    pub fn sp(&self) -> usize {
        self.x[reg::SP]
    }

    /// Sets the stack pointer.
    pub fn set_sp(&mut self, sp: usize) {
        self.x[reg::SP] = sp;
    }

    /// Sets the thread pointer.
    pub(super) fn set_tls(&mut self, tls: usize) {
        self.x[reg::TP] = tls;
    }

    /// The result of the system call.
    pub fn result(&self) -> isize {
        self.x[reg::A0] as isize
    }

    /// Sets the result of the system call.
    pub fn set_result(&mut self, value: isize) {
        self.x[reg::A0] = value as usize;
    }

    /// The number of the current system call, if the thread is in one.
    pub fn syscall_nr(&self) -> Option<usize> {
        (self.syscall != -1).then_some(self.syscall as usize)
    }

    /// Records that the thread is in no system call, so that none is restarted.
    pub fn clear_syscall(&mut self) {
        self.syscall = -1;
    }

    /// Returns to the system call instruction with its arguments restored.
    pub fn restart_syscall(&mut self) {
        self.x[reg::A0] = self.orig_a0;
        self.x[reg::PC] -= CALL;
        self.clear_syscall();
    }

    /// As `restart_syscall`, but with call number `nr` (restart_syscall(2)).
    pub fn restart_as(&mut self, nr: usize) {
        self.restart_syscall();
        self.x[reg::NR] = nr;
    }

    /// The system call to make, which a tracer may have changed.
    pub fn call(&self) -> Call {
        let mut arguments = core::array::from_fn(|at| self.x[reg::A0 + at]);
        arguments[0] = self.orig_a0;
        let number = self.x[reg::NR];
        Call {
            architecture: AUDIT,
            number: number as i32,
            place: if number < ENTRIES { number } else { UNKNOWN },
            pc: self.pc(),
            arguments,
        }
    }

    /// The system call of a stopped thread; its number is −1 outside of one.
    pub fn stopped_call(&self) -> Call {
        Call {
            number: self.syscall as i32,
            ..self.call()
        }
    }

    /// The system call of a thread that sleeps in one, according to the registers of the call.
    /// `watched`: the call may have gone through the table of traced threads.
    pub fn sleeping_call(&self, watched: bool) -> Call {
        let mut call = self.call();
        let failed = Errno::ENOSYS.result() as usize;
        if !watched || self.x[reg::A0] != failed {
            call.arguments[0] = self.x[reg::A0];
        }
        call
    }

    /// Prepares a traced call: it fails with ENOSYS unless it is made or a tracer sets another
    /// result.
    pub fn begin_watched(&mut self) {
        self.set_result(Errno::ENOSYS.result());
    }

    /// The value of the result register if the system call was not made: its first argument.
    pub fn roll_back(&self) -> isize {
        self.orig_a0 as isize
    }

    /// Sets the system call that the thread is in to `number`.
    pub fn set_syscall(&mut self, number: usize) {
        self.syscall = number as isize;
    }

    /// EIO if the program shall stop after its next instruction: not supported by the hardware.
    pub fn set_single_step(&mut self, on: bool) -> Result<()> {
        if on { Err(Errno::EIO) } else { Ok(()) }
    }
}
