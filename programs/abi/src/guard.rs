//! Guarded pages (PROT_BTI): valid targets of indirect branches, the pages that are guarded, and
//! the branch type in signal handlers.

use std::arch::asm;
use std::fs;
use std::io::Write;
use std::mem;
use std::os::unix::fs::PermissionsExt;
use std::ptr;

use libc::{PROT_EXEC, PROT_NONE, PROT_READ, PROT_WRITE, c_int, c_void, siginfo_t};

use crate::{in_child, tell, tell_end};

const PROT_BTI: c_int = 0x10;
const GUARDED: c_int = PROT_READ | PROT_EXEC | PROT_BTI;

const BTI: u32 = 0xd503_241f;
const BTI_C: u32 = 0xd503_245f;
const BTI_J: u32 = 0xd503_249f;
const BTI_JC: u32 = 0xd503_24df;
const PACIASP: u32 = 0xd503_233f;
const AUTIASP: u32 = 0xd503_23bf;
const NOP: u32 = 0xd503_201f;
const RET: u32 = 0xd65f_03c0;

static mut EXPECTED: usize = 0;

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a complete siginfo and context, and the process has one thread.
    unsafe {
        let offset = ((*info).si_addr() as usize).wrapping_sub(EXPECTED) as isize;
        let state = (*context.cast::<libc::ucontext_t>()).uc_mcontext.pstate;
        let code = (*info).si_code;
        println!(
            "signal {signal} code {code} address {offset:+} type {}",
            state >> 10 & 3
        );
        libc::_exit(0);
    }
}

fn handle(signal: c_int, handler: usize) {
    // SAFETY: the handler has the signature that SA_SIGINFO requires.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

fn faulting(what: &str, work: impl FnOnce()) {
    print!("{what}: ");
    let _ = std::io::stdout().flush();
    let status = in_child(|| {
        handle(libc::SIGILL, on_fault as *const () as usize);
        handle(libc::SIGSEGV, on_fault as *const () as usize);
        work();
        println!("no fault");
    });
    if status != 0 {
        tell_end("", status);
    }
}

/// A new page with this code.
fn page_of(code: &[u32], rights: c_int) -> usize {
    // SAFETY: the page is only for this code.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
        ptr::copy_nonoverlapping(code.as_ptr(), page.cast(), code.len());
        asm!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb", in(reg) page);
        if libc::mprotect(page, 4096, rights) != 0 {
            println!("mprotect {rights:#x}: {}", crate::error());
        }
        EXPECTED = page as usize;
        page as usize
    }
}

/// The kind of branch to an instruction.
#[derive(Clone, Copy, Debug)]
enum By {
    Call,
    Jump,
    JumpByX16,
    Return,
}

fn reach(by: By, at: usize) {
    // SAFETY: the code there returns at once, or faults.
    unsafe {
        match by {
            By::Call => asm!("blr {0}", in(reg) at, out("x30") _, out("x16") _),
            By::Jump => asm!("adr x30, 2f", "br {0}", "2:", in(reg) at, out("x30") _),
            By::JumpByX16 => asm!("adr x30, 2f", "br x16", "2:", in("x16") at, out("x30") _),
            By::Return => asm!("adr x30, 2f", "ret {0}", "2:", in(reg) at, out("x30") _),
        }
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: reads the auxiliary vector.
    let hwcap2 = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    println!("bti: {}", hwcap2 >> 17 & 1);
    pads();
    rights();
    signals();
    vdso();
    shown();
    programs();
}

fn pads() {
    let code = [
        ("nothing", &[RET, RET][..]),
        ("bti", &[BTI, RET]),
        ("bti c", &[BTI_C, RET]),
    ];
    let more = [
        ("bti j", &[BTI_J, RET][..]),
        ("bti jc", &[BTI_JC, RET]),
        ("paciasp", &[PACIASP, AUTIASP, RET]),
    ];
    for (name, code) in code.into_iter().chain(more) {
        for by in [By::Call, By::Jump, By::JumpByX16, By::Return] {
            faulting(&format!("{name} by {by:?}"), || {
                reach(by, page_of(code, GUARDED))
            });
        }
    }
    // BR X10 and BR X16, which differ only in a guarded page.
    for (branch, by) in [(0xd61f_0140, "x10"), (0xd61f_0200, "x16")] {
        let pads = [
            ("bti c", BTI_C, NOP),
            ("bti j", BTI_J, NOP),
            ("paciasp", PACIASP, AUTIASP),
        ];
        for (name, pad, next) in pads {
            faulting(&format!("{name} by {by} from there"), || {
                let page = page_of(&[BTI_C, branch, pad, next, RET], GUARDED);
                // SAFETY: the code returns, or faults.
                unsafe {
                    asm!("blr {0}", in(reg) page, in("x10") page + 8, in("x16") page + 8, out("x30") _)
                }
            });
        }
    }
    faulting("not guarded", || {
        reach(By::Call, page_of(&[RET], PROT_READ | PROT_EXEC))
    });
    faulting("behind a pad", || {
        reach(By::Call, page_of(&[BTI_C, NOP, RET], GUARDED) + 4)
    });
}

fn rights() {
    faulting("guarded no more", || {
        let page = page_of(&[RET], GUARDED);
        reach(By::Return, page);
        // SAFETY: a page of its own.
        unsafe { libc::mprotect(page as _, 4096, PROT_READ | PROT_EXEC) };
        reach(By::Call, page);
    });
    faulting("guarded late", || {
        let page = page_of(&[RET], PROT_READ | PROT_EXEC);
        reach(By::Call, page);
        // SAFETY: a page of its own.
        unsafe { libc::mprotect(page as _, 4096, GUARDED) };
        reach(By::Call, page);
    });
    faulting("in a child", || {
        let page = page_of(&[RET], GUARDED);
        reach(By::Return, page);
        let status = in_child(|| reach(By::Call, page));
        tell_end("grandchild", status);
    });
    // SAFETY: memory of its own.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), 4096, PROT_READ | PROT_BTI, flags, -1, 0);
        tell("mmap", i64::from(page != libc::MAP_FAILED));
        for rights in [
            PROT_NONE | PROT_BTI,
            PROT_READ | PROT_BTI,
            0x20 | PROT_READ,
            0x40,
        ] {
            let done = libc::mprotect(page, 4096, rights);
            tell(&format!("mprotect {rights:#x}"), done);
        }
        let unknown = libc::mmap(ptr::null_mut(), 4096, PROT_READ | 0x40, flags, -1, 0);
        tell(
            "mmap, a bit that is none",
            i64::from(unknown != libc::MAP_FAILED),
        );
    }
}

/// Makes sigreturn continue at `EXPECTED`, with a branch type.
extern "C" fn on_user(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a complete context, and the process has one thread.
    unsafe {
        let machine = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        machine.regs[30] = machine.pc;
        machine.pc = EXPECTED as u64;
        machine.pstate |= 2 << 10;
    }
}

fn signals() {
    for (name, code) in [
        ("without a pad", [NOP, RET]),
        ("with a pad", [BTI_C, RET]),
        ("with bti j", [BTI_J, RET]),
    ] {
        faulting(&format!("a handler {name}"), || {
            let page = page_of(&code, GUARDED);
            handle(libc::SIGUSR1, page);
            // SAFETY: the handler returns at once.
            unsafe { libc::raise(libc::SIGUSR1) };
        });
    }
    for (name, code) in [("nothing", [RET, RET]), ("a pad", [BTI_C, RET])] {
        faulting(&format!("sigreturn to {name}"), || {
            page_of(&code, GUARDED);
            handle(libc::SIGUSR2, on_user as *const () as usize);
            // SAFETY: the code returns, by way of the page.
            unsafe {
                asm!("svc 0", in("x8") libc::SYS_kill, inlateout("x0") libc::getpid() as i64 => _,
                    in("x1") libc::SIGUSR2 as i64, out("x30") _)
            };
        });
    }
}

/// The vDSO, which a kernel may or may not guard, is called through pointers.
fn vdso() {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time outlives the call.
    tell("clock_gettime", unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time)
    });
}

/// Whether smaps shows the page at `address` as guarded.
fn is_shown(address: usize) -> Option<bool> {
    let text = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut inside = false;
    for line in text.lines() {
        let range = line.split(' ').next().and_then(|word| word.split_once('-'));
        if let Some((start, end)) = range {
            let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
            inside = (number(start)..number(end)).contains(&address);
        } else if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
            return Some(flags.split_whitespace().any(|flag| flag == "bt"));
        }
    }
    None
}

fn shown() {
    println!("guarded: {:?}", is_shown(page_of(&[RET], GUARDED)));
    println!(
        "not executed: {:?}",
        is_shown(page_of(&[RET], PROT_READ | PROT_BTI))
    );
    println!(
        "not guarded: {:?}",
        is_shown(page_of(&[RET], PROT_READ | PROT_EXEC))
    );
}

/// A program that branches to an instruction without a landing pad and exits with status 7 if it
/// gets there. It has these properties, in a segment of `len` bytes.
fn program(properties: &[u32], name: &[u8; 4], kind: u32, len: Option<u64>) -> Vec<u8> {
    let content = properties.iter().flat_map(|word| word.to_le_bytes());
    let content: Vec<u8> = content.collect();
    let mut note: Vec<u8> = [4, content.len() as u32, kind]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    note.extend_from_slice(name);
    note.extend_from_slice(&content);
    // adr x9, 2f; br x9; 2: mov x0, #7; mov x8, #93; svc #0
    let code = [
        0x1000_0049u32,
        0xd61f_0120,
        0xd280_00e0,
        0xd280_0ba8,
        0xd400_0001,
    ];
    let (base, entry) = (0x40_0000u64, 0x40_0800u64);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let half = |file: &mut Vec<u8>, value: u16| file.extend_from_slice(&value.to_le_bytes());
    half(&mut file, 2);
    half(&mut file, 183);
    file.extend_from_slice(&1u32.to_le_bytes());
    for word in [entry, 64, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(&0u32.to_le_bytes());
    for value in [64, 56, 2, 0, 0, 0] {
        half(&mut file, value);
    }
    let mut segment = |kind: u32, flags: u32, words: [u64; 6]| {
        file.extend_from_slice(&kind.to_le_bytes());
        file.extend_from_slice(&flags.to_le_bytes());
        words
            .iter()
            .for_each(|word| file.extend_from_slice(&word.to_le_bytes()));
    };
    segment(1, 5, [0, base, base, 0x1000, 0x1000, 0x1000]);
    let size = len.unwrap_or(note.len() as u64);
    segment(
        0x6474_e553,
        4,
        [0x400, base + 0x400, base + 0x400, size, size, 8],
    );
    file.resize(0x400, 0);
    file.extend_from_slice(&note);
    file.resize(0x800, 0);
    code.iter()
        .for_each(|word| file.extend_from_slice(&word.to_le_bytes()));
    file.resize(0x1000, 0);
    file
}

fn programs() {
    const FEATURES: u32 = 0xc000_0000;
    let guarded = [FEATURES, 4, 1, 0];
    let cases: [(&str, &[u32], &[u8; 4], u32, Option<u64>); 16] = [
        ("guarded", &guarded, b"GNU\0", 5, None),
        (
            "guarded and signed",
            &[FEATURES, 4, 3, 0],
            b"GNU\0",
            5,
            None,
        ),
        ("signed", &[FEATURES, 4, 2, 0], b"GNU\0", 5, None),
        (
            "another first",
            &[1, 8, 0, 0, FEATURES, 4, 1, 0],
            b"GNU\0",
            5,
            None,
        ),
        (
            "not in order",
            &[FEATURES, 4, 1, 0, 1, 8, 0, 0],
            b"GNU\0",
            5,
            None,
        ),
        (
            "twice",
            &[FEATURES, 4, 1, 0, FEATURES, 4, 1, 0],
            b"GNU\0",
            5,
            None,
        ),
        ("none", &[], b"GNU\0", 5, None),
        ("no segment", &guarded, b"GNU\0", 5, Some(0)),
        ("cut off", &guarded, b"GNU\0", 5, Some(24)),
        ("only a head", &guarded, b"GNU\0", 5, Some(12)),
        ("not even that", &guarded, b"GNU\0", 5, Some(8)),
        ("large", &guarded, b"GNU\0", 5, Some(1024)),
        ("too large", &guarded, b"GNU\0", 5, Some(1025)),
        ("another name", &guarded, b"GNV\0", 5, None),
        ("another kind", &guarded, b"GNU\0", 4, None),
        ("a long value", &[FEATURES, 8, 1, 0], b"GNU\0", 5, None),
    ];
    for (what, properties, name, kind, len) in cases {
        fs::write("guard-program", program(properties, name, kind, len)).expect("room");
        let rights = fs::Permissions::from_mode(0o755);
        fs::set_permissions("guard-program", rights).expect("its own");
        match std::process::Command::new("./guard-program").status() {
            Ok(status) => println!("{what}: {status}"),
            Err(error) => println!("{what}: error {:?}", error.raw_os_error()),
        }
    }
    let _ = fs::remove_file("guard-program");
}
