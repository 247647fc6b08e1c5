//! The files `syscall`, `stack` and `wchan`: what a thread does in the kernel.
//!
//! They describe sleeping threads, which nothing wakes while they are examined.

use super::super::seq_file::{Content, Text};
use super::subject::{Subject, Task};
use crate::errno::{Errno, Result};
use crate::put;
use crate::task::sched::cond_resched;
use crate::task::{Sleep, current};
use linux_raw_sys::general::CAP_SYS_ADMIN;
use machine::kallsyms::Frame;

/// syscall: the number of the current system call, its arguments, the stack pointer, and the
/// address where the program resumes.
pub fn call(subject: &Subject, text: &mut Text) -> Result<()> {
    let Some(thread) = &subject.thread else {
        put!(text, "-1 0x0 0x0\n");
        return Ok(());
    };
    let Some(Sleep { call, sp }) = thread.sleep() else {
        put!(text, "running\n");
        return Ok(());
    };
    put!(text, "{}", call.number);
    if call.number >= 0 {
        let arguments = call.arguments.iter();
        arguments.for_each(|argument| put!(text, " {argument:#x}"));
    }
    put!(text, " {sp:#x} {:#x}\n", call.pc);
    Ok(())
}

/// The maximum number of callers shown (MAX_STACK_TRACE_DEPTH).
const DEPTH: usize = 64;

/// Calls `f` with each frame of a sleeping thread's stack, innermost first, until it returns false.
fn each_caller(subject: &Subject, mut f: impl FnMut(Frame) -> bool) {
    let mut callers = [0; DEPTH];
    let found = subject
        .thread
        .as_ref()
        .map_or(0, |thread| thread.callers(&mut callers));
    for &caller in &callers[..found] {
        if Frame::of(caller).is_some_and(|frame| !f(frame)) {
            break;
        }
        cond_resched();
    }
}

/// stack: readable for programs that had CAP_SYS_ADMIN when they opened it.
pub struct Stack {
    who: Task,
    admitted: bool,
}

impl Stack {
    /// The file, opened by the current thread.
    pub fn new(who: Task) -> Self {
        let admitted = current().with_credentials(|own| own.can(CAP_SYS_ADMIN));
        Stack { who, admitted }
    }
}

impl Content for Stack {
    fn write(&self, text: &mut Text) -> Result<()> {
        if !self.admitted {
            return Err(Errno::EACCES);
        }
        self.who.find()?.look(|subject| {
            each_caller(subject, |frame| {
                put!(text, "[<0>] {frame}\n");
                true
            });
            Ok(())
        })
    }
}

/// The functions that put their callers to sleep.
const SLEEPS: [&str; 3] = ["::sched::", "::wait_queue::", "::arch::"];

/// wchan: the function in which the thread sleeps.
pub fn channel(subject: &Subject, text: &mut Text) -> Result<()> {
    let before = text.len();
    if subject.may_look() {
        each_caller(subject, |frame| {
            let name = frame.name();
            let is_sleep = SLEEPS.iter().any(|part| name.contains(part));
            if !is_sleep {
                put!(text, "{name}");
            }
            is_sleep
        });
    }
    if text.len() == before {
        text.push(b"0");
    }
    Ok(())
}
