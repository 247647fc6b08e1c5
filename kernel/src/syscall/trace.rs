//! Tracing: shows calls and their results, as strace does.

extern crate alloc;

use alloc::vec::Vec;
use core::fmt::{self, Write};

use abi::Kind;
use linux_raw_sys::general::{
    __NR_execve, __NR_execveat, __NR_exit, __NR_exit_group, __NR_rt_sigreturn, AT_FDCWD,
};

use super::watch::invoke;
use crate::arch::Call;
use crate::fs::trace;
use crate::mm::user;
use crate::task::current;

/// The number of bytes of a string that are shown.
const SHOWN: usize = 64;
/// The longest line, in bytes.
const LINE: usize = 1024;

/// Executes the call and shows it.
pub(super) fn show(call: &Call) -> isize {
    let (number, registers) = (call.place, call.arguments);
    let mut line = Line::new();
    // Arguments that cannot be shown are omitted.
    _ = show_call(&mut line, call);
    let number_u32 = number as u32;
    if [__NR_exit, __NR_exit_group].contains(&number_u32) {
        _ = writeln!(line, " = ?");
        line.send();
    }
    let result = invoke(call);
    if [__NR_execve, __NR_execveat].contains(&number_u32) && result == 0
        || number_u32 != __NR_rt_sigreturn
    {
        _ = show_read(&mut line, number, registers, result);
    }
    _ = show_result(&mut line, result);
    line.send();
    result
}

/// A line being written; text that does not fit is cut off.
struct Line(Vec<u8>);

impl Line {
    fn new() -> Self {
        let mut bytes = Vec::new();
        // Without memory nothing is shown.
        _ = bytes.try_reserve_exact(LINE);
        Line(bytes)
    }

    fn send(&mut self) {
        trace::write(&self.0);
        self.0.clear();
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // There is always room for the end of the line.
        let room = self.0.capacity().saturating_sub(self.0.len() + 1);
        let room = if text.ends_with('\n') { room + 1 } else { room };
        self.0
            .extend_from_slice(&text.as_bytes()[..text.len().min(room)]);
        Ok(())
    }
}

fn show_call(line: &mut Line, made: &Call) -> fmt::Result {
    write!(line, "{:5} ", current().tid())?;
    let registers = made.arguments;
    let Some(call) = abi::by_number(made.place) else {
        return write!(
            line,
            "syscall_{}({:#x}, {:#x}, {:#x})",
            made.number, registers[0], registers[1], registers[2]
        );
    };
    write!(line, "{}(", call.name)?;
    for (at, kind) in call.arguments.iter().enumerate() {
        if at > 0 {
            write!(line, ", ")?;
        }
        show_argument(line, call, *kind, registers, at)?;
    }
    write!(line, ")")
}

fn show_argument(
    line: &mut Line,
    call: &abi::Call,
    kind: Kind,
    registers: [usize; 6],
    at: usize,
) -> fmt::Result {
    let value = registers[at];
    match kind {
        Kind::Int => write!(line, "{}", value as i32),
        Kind::Uint => write!(line, "{value}"),
        Kind::Hex => write!(line, "{value:#x}"),
        Kind::Octal => write!(line, "{value:#o}"),
        Kind::Fd if value as i32 == AT_FDCWD => write!(line, "AT_FDCWD"),
        Kind::Fd => write!(line, "{}", value as i32),
        Kind::Signal => match signal_name(value) {
            Some(name) => write!(line, "{name}"),
            None => write!(line, "{value}"),
        },
        Kind::Pointer | Kind::Path if value == 0 => write!(line, "NULL"),
        Kind::Pointer => write!(line, "{value:#x}"),
        Kind::Path => show_string(line, value, SHOWN, true),
        Kind::Bytes => show_string(
            line,
            value,
            registers[(at + 1).min(call.arguments.len() - 1)],
            false,
        ),
    }
}

/// Shows up to SHOWN of the `len` bytes at `address`, or with `ends` up to a zero.
fn show_string(line: &mut Line, address: usize, len: usize, ends: bool) -> fmt::Result {
    let mut bytes = [0; SHOWN];
    let count = user::copy_from(address, &mut bytes[..len.min(SHOWN)]);
    if count == 0 && len != 0 {
        return write!(line, "{address:#x}");
    }
    let end = if ends {
        bytes[..count].iter().position(|&byte| byte == 0)
    } else {
        None
    };
    write!(line, "\"{}\"", bytes[..end.unwrap_or(count)].escape_ascii())?;
    if ends && end.is_none() || !ends && len > SHOWN {
        write!(line, "...")
    } else {
        Ok(())
    }
}

/// Shows the bytes that a read returned.
fn show_read(line: &mut Line, number: usize, registers: [usize; 6], result: isize) -> fmt::Result {
    let reads = [abi::number("read"), abi::number("pread64")].contains(&number);
    if reads && result > 0 {
        write!(line, " <")?;
        show_string(line, registers[1], result as usize, false)?;
        write!(line, ">")?;
    }
    Ok(())
}

fn show_result(line: &mut Line, result: isize) -> fmt::Result {
    match usize::try_from(result.wrapping_neg())
        .ok()
        .filter(|error| (1..4096).contains(error))
    {
        None if (result as usize) < 1 << 31 => writeln!(line, " = {result}"),
        None => writeln!(line, " = {result:#x}"),
        Some(error @ 512..) => writeln!(line, " = ? ({})", restart_name(error)),
        Some(error) => match abi::errno_name(error) {
            Some(name) => writeln!(line, " = -1 {name}"),
            None => writeln!(line, " = -1 errno {error}"),
        },
    }
}

fn restart_name(error: usize) -> &'static str {
    match error {
        512 => "ERESTARTSYS",
        513 => "ERESTARTNOINTR",
        514 => "ERESTARTNOHAND",
        _ => "ERESTART_RESTARTBLOCK",
    }
}

fn signal_name(number: usize) -> Option<&'static str> {
    const NAMES: [&str; 31] = [
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    NAMES.get(number.wrapping_sub(1)).copied()
}
