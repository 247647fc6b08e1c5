//! rt_sigreturn(2) on arm64: the changes of a frame that it accepts, and those that cause SIGSEGV.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use crate::{in_child, tell, tell_end};

/// The offsets of the registers in a `ucontext_t`, of PSTATE from these, and of the records.
const REGISTERS: usize = 176;
const PSTATE: usize = REGISTERS + 8 + 8 * 33;
const RECORDS: usize = PSTATE + 16;
const FP_SIZE: u32 = 528;
const FP_MAGIC: u32 = 0x4650_8001;
const ESR_MAGIC: u32 = 0x4553_5201;
const EXTRA_MAGIC: u32 = 0x4558_5401;

/// A change that a handler makes to its frame.
type Damage = unsafe fn(*mut u8);

static DAMAGE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

extern "C" fn damages(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: a `Damage` is a function, and the context is complete.
    unsafe { mem::transmute::<*mut (), Damage>(DAMAGE.load(SeqCst))(context.cast()) };
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a complete siginfo.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    println!(
        "signal {signal} code {code}, at the stack {}",
        address > 1 << 20
    );
    // SAFETY: the child ends here.
    unsafe { libc::_exit(1) };
}

unsafe fn word(context: *mut u8, at: usize) -> *mut u32 {
    unsafe { context.add(at).cast() }
}

unsafe fn put_state(context: *mut u8, bits: u64) {
    unsafe { *context.add(PSTATE).cast::<u64>() |= bits };
}

/// The end of the list of records.
unsafe fn end(context: *mut u8) -> usize {
    unsafe {
        let mut at = RECORDS;
        while *word(context, at) != 0 {
            at += *word(context, at + 4) as usize;
        }
        at
    }
}

unsafe fn append(context: *mut u8, magic: u32, size: u32) {
    unsafe {
        let at = end(context);
        *word(context, at) = magic;
        *word(context, at + 4) = size;
        *context.add(at + size as usize).cast::<u64>() = 0;
    }
}

const CASES: &[(&str, Damage)] = &[
    ("nothing", |_| ()),
    ("reserved bits", |c| unsafe {
        put_state(c, 1 << 13 | 1 << 20 | 1 << 40)
    }),
    ("flags", |c| unsafe { put_state(c, 0xf << 28) }),
    ("D", |c| unsafe { put_state(c, 1 << 9) }),
    ("A", |c| unsafe { put_state(c, 1 << 8) }),
    ("I", |c| unsafe { put_state(c, 1 << 7) }),
    ("F", |c| unsafe { put_state(c, 1 << 6) }),
    ("EL1", |c| unsafe { put_state(c, 5) }),
    ("EL2", |c| unsafe { put_state(c, 9) }),
    ("AArch32", |c| unsafe { put_state(c, 1 << 4) }),
    ("no FP record", |c| unsafe {
        *c.add(RECORDS).cast::<u64>() = 0
    }),
    ("an end with a size", |c| unsafe { *word(c, RECORDS) = 0 }),
    ("FP, too short", |c| unsafe {
        *word(c, RECORDS + 4) = FP_SIZE - 16
    }),
    ("FP, misaligned", |c| unsafe {
        *word(c, RECORDS + 4) = FP_SIZE + 8
    }),
    ("FP, too long", |c| unsafe { *word(c, RECORDS + 4) = 8192 }),
    ("FP, twice", |c| unsafe { append(c, FP_MAGIC, FP_SIZE) }),
    ("a syndrome", |c| unsafe { append(c, ESR_MAGIC, 16) }),
    ("two syndromes", |c| unsafe {
        append(c, ESR_MAGIC, 16);
        append(c, ESR_MAGIC, 16);
    }),
    ("unknown", |c| unsafe { append(c, 0x1234_5678, 16) }),
    ("more elsewhere", |c| unsafe { append(c, EXTRA_MAGIC, 32) }),
    ("no end", |c| unsafe {
        append(c, ESR_MAGIC, (4096 + RECORDS - end(c)) as u32)
    }),
    ("a stack that is not one", |c| unsafe { *word(c, 24) = 3 }),
];

/// Runs this part.
pub fn run() {
    // SAFETY: handlers have the signature that SA_SIGINFO requires, and children end by _exit.
    unsafe {
        for (what, damage) in CASES {
            tell_end(
                what,
                in_child(|| {
                    DAMAGE.store(*damage as *mut (), SeqCst);
                    let mut action: libc::sigaction = mem::zeroed();
                    action.sa_flags = libc::SA_SIGINFO;
                    action.sa_sigaction = on_fault as *const () as usize;
                    libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
                    action.sa_sigaction = damages as *const () as usize;
                    libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut());
                    libc::raise(libc::SIGUSR1);
                    println!("goes on");
                }),
            );
        }
        stacks();
    }
}

/// Flags of sigaltstack(2).
unsafe fn stacks() {
    unsafe {
        let mut room = vec![0u8; 1 << 16];
        for flags in [0, 1, 2, 3, 4, 1 << 31, 1 << 31 | 1, 1 << 31 | 3u32] {
            let new = libc::stack_t {
                ss_sp: room.as_mut_ptr().cast(),
                ss_flags: flags as i32,
                ss_size: room.len(),
            };
            tell(
                &format!("stack with flags {flags:#x}"),
                libc::syscall(libc::SYS_sigaltstack, &new, 0),
            );
        }
    }
}
