//! Alternate stacks.

use super::*;

pub unsafe fn stacks() {
    unsafe {
        let mut room = vec![0u8; 1 << 16];
        let start = room.as_mut_ptr();
        let within = || {
            let at = PLACE.load(SeqCst);
            (start.addr()..start.addr() + (1 << 16)).contains(&at)
        };
        let mut stack: libc::stack_t = mem::zeroed();
        tell("none", libc::sigaltstack(ptr::null(), &mut stack));
        println!("flags {:#x}", stack.ss_flags);
        stack = libc::stack_t {
            ss_sp: start.cast(),
            ss_flags: 0,
            ss_size: 1 << 16,
        };
        let set = |what: &str, flags: c_int, size: usize| {
            let new = libc::stack_t {
                ss_flags: flags,
                ss_size: size,
                ..stack
            };
            tell(what, libc::sigaltstack(&new, ptr::null_mut()));
        };
        set("too small", 0, 1024);
        set("odd flags", 1 << 8, 1 << 16);
        set("a stack", 0, 1 << 16);
        act(SIGUSR1, place as *const () as usize, SA_ONSTACK, &[]);
        libc::raise(SIGUSR1);
        println!("on it {}", within());
        act(SIGUSR1, place as *const () as usize, 0, &[]);
        libc::raise(SIGUSR1);
        println!("not asked for: {}", within());
        set("another", 0, 1 << 15);
        set("disarms itself", SS_AUTODISARM, 1 << 16);
        act(SIGUSR1, place as *const () as usize, SA_ONSTACK, &[]);
        libc::raise(SIGUSR1);
        println!("on it {}", within());
        libc::sigaltstack(ptr::null(), &mut stack);
        println!("flags {:#x} size {}", stack.ss_flags, stack.ss_size);
        tell_end(
            "a child has it",
            in_child(|| {
                let mut now: libc::stack_t = mem::zeroed();
                libc::sigaltstack(ptr::null(), &mut now);
                println!("flags {:#x} size {}", now.ss_flags, now.ss_size);
            }),
        );
        let place = start.addr();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut now: libc::stack_t = mem::zeroed();
                libc::sigaltstack(ptr::null(), &mut now);
                // Rust gives each thread an alternate stack.
                println!("a thread's is its own: {}", now.ss_sp.addr() != place);
            });
        });
        tell("nowhere", libc::syscall(libc::SYS_sigaltstack, 1, 0));
        tell("told nowhere", libc::syscall(libc::SYS_sigaltstack, 0, 1));
        // A handler whose stack is not accessible.
        tell_end(
            "no room",
            in_child(|| {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let hole = libc::mmap(ptr::null_mut(), 1 << 16, libc::PROT_NONE, flags, -1, 0);
                let new = libc::stack_t {
                    ss_sp: hole,
                    ss_flags: 0,
                    ss_size: 1 << 16,
                };
                libc::sigaltstack(&new, ptr::null_mut());
                libc::raise(SIGUSR1);
            }),
        );
    }
}

const SS_AUTODISARM: c_int = 1 << 31;

/// Prints the alternate stack in the context of a handler, and by sigaltstack(2) in it.
extern "C" fn inner(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a context, and writes the structure.
    unsafe {
        let kept = (*context.cast::<libc::ucontext_t>()).uc_stack;
        let mut now: libc::stack_t = mem::zeroed();
        libc::sigaltstack(ptr::null(), &mut now);
        println!(
            "signal {signal}: kept {:#x} size {}, flags {:#x} size {}",
            kept.ss_flags, kept.ss_size, now.ss_flags, now.ss_size
        );
    }
    place(signal);
}

/// Sets its own alternate stack again, which has SS_AUTODISARM, and is interrupted on it.
extern "C" fn outer(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: as above; the second handler does not return.
    unsafe {
        let kept = (*context.cast::<libc::ucontext_t>()).uc_stack;
        tell("armed on it", libc::sigaltstack(&kept, ptr::null_mut()));
        tell("and again", libc::sigaltstack(&kept, ptr::null_mut()));
        let mut now: libc::stack_t = mem::zeroed();
        libc::sigaltstack(ptr::null(), &mut now);
        println!("flags {:#x}", now.ss_flags);
        PLACE.store((&raw const now).expose_provenance(), SeqCst);
        libc::raise(SIGUSR2);
        libc::_exit(1);
    }
}

extern "C" fn innermost(_: c_int) {
    let local = 0u8;
    let above = (&raw const local).addr() > PLACE.load(SeqCst);
    println!("began at the top again: {above}");
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) };
}

/// The state of an alternate stack while handlers run, by its flags.
pub unsafe fn armed() {
    unsafe {
        let mut room = vec![0u8; 1 << 16];
        let stack = |flags: c_int| libc::stack_t {
            ss_sp: room.as_ptr().cast_mut().cast(),
            ss_flags: flags,
            ss_size: room.len(),
        };
        // C libraries refuse SS_ONSTACK.
        let set = |flags: c_int| libc::syscall(libc::SYS_sigaltstack, &stack(flags), 0);
        let disabled = libc::SS_DISABLE;
        for flags in [0, libc::SS_ONSTACK, SS_AUTODISARM, SS_AUTODISARM | 1] {
            for asked in [0, SA_ONSTACK] {
                tell(
                    &format!("flags {flags:#x}, asked {}", asked != 0),
                    set(flags),
                );
                act(
                    SIGUSR1,
                    inner as *const () as usize,
                    asked | SA_SIGINFO,
                    &[],
                );
                libc::raise(SIGUSR1);
                let mut now: libc::stack_t = mem::zeroed();
                libc::sigaltstack(ptr::null(), &mut now);
                println!("after it {:#x} size {}", now.ss_flags, now.ss_size);
            }
        }
        for flags in [disabled, SS_AUTODISARM | disabled] {
            tell(&format!("flags {flags:#x}"), set(flags));
            let mut now: libc::stack_t = mem::zeroed();
            libc::sigaltstack(ptr::null(), &mut now);
            println!("shown {:#x} size {}", now.ss_flags, now.ss_size);
            libc::raise(SIGUSR1);
        }
        act(
            SIGUSR1,
            outer as *const () as usize,
            SA_ONSTACK | SA_SIGINFO,
            &[],
        );
        act(SIGUSR2, innermost as *const () as usize, SA_ONSTACK, &[]);
        tell_end(
            "on it",
            in_child(|| {
                set(SS_AUTODISARM);
                libc::raise(SIGUSR1);
            }),
        );
        room.fill(0);
    }
}
