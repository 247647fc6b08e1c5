//! A tracer sees and changes the system calls of its tracee.

use super::*;

pub unsafe fn calls() {
    unsafe {
        let child = traced(|| {
            let first = libc::syscall(libc::SYS_getppid);
            let second = libc::syscall(libc::SYS_getsid, 0x7777, 2, 3);
            libc::_exit((first == 1234) as i32 + 2 * (second == -1) as i32);
        });
        wait(child);
        tell(
            "options",
            ptrace(SETOPTIONS, child, 0, libc::PTRACE_O_TRACESYSGOOD as usize),
        );
        let mut shown = 0;
        loop {
            go_on(SYSCALL, child, 0);
            let what = wait(child);
            if !what.starts_with("stop") {
                println!("{what}");
                return;
            }
            let mut info = Information::default();
            let at = (&raw mut info) as usize;
            let len = ptrace(SYSTEM_CALL_INFO, child, size_of::<Information>(), at);
            let wanted = [libc::SYS_getppid, libc::SYS_getsid].map(|number| number as u64);
            if info.kind == 1 && wanted.contains(&info.data[0]) {
                shown = info.data[0];
                let argument = if shown == wanted[1] { info.data[1] } else { 0 };
                println!("{what}: {len} bytes, entry {shown} argument {argument:#x}");
            } else if info.kind == 2 && wanted.contains(&shown) {
                println!("{what}: {len} bytes, exit, error {}", info.data[1] & 1);
                if shown == wanted[0] {
                    let mut own = registers(child);
                    println!("result {}", own[RESULT] == libc::getpid() as u64);
                    own[RESULT] = 1234;
                    set_registers(child, &own);
                }
                shown = 0;
            }
        }
    }
}

/// Unknown system calls stop as others do.
pub unsafe fn unknown_calls() {
    unsafe {
        let child = traced(|| {
            for number in [511, 512, 1023, 1024, 0x1234_5678, -2, -1] {
                libc::syscall(number, 7);
            }
            libc::_exit(0);
        });
        wait(child);
        let good = libc::PTRACE_O_TRACESYSGOOD as usize;
        tell("options", ptrace(SETOPTIONS, child, 0, good));
        loop {
            go_on(SYSCALL, child, 0);
            let what = wait(child);
            if !what.starts_with("stop") {
                println!("{what}");
                return;
            }
            let mut info = Information::default();
            let at = (&raw mut info) as usize;
            ptrace(SYSTEM_CALL_INFO, child, size_of::<Information>(), at);
            let (number, argument) = (info.data[0] as i64, info.data[1]);
            match info.kind {
                // The rest of raise(3).
                1 if number == libc::SYS_rt_sigprocmask => {}
                1 => println!("{what}: entry {number} argument {argument}"),
                2 if number < 0 => println!("{what}: exit {number} error {}", argument as u8),
                _ => {}
            }
        }
    }
}

/// Replaces the system call at which a child has stopped; -1 skips it.
unsafe fn set_call(child: i32, number: i32, result: Option<u64>) {
    unsafe {
        let mut own = registers(child);
        if let Some(result) = result {
            own[RESULT] = result;
        }
        if cfg!(target_arch = "riscv64") {
            own[17] = number as u64;
        }
        set_registers(child, &own);
        #[cfg(target_arch = "aarch64")]
        {
            const SYSTEM_CALL: usize = 0x404;
            let range = [(&raw const number) as usize, size_of::<i32>()];
            let at = (&raw const range) as usize;
            let set = libc::PTRACE_SETREGSET as u32;
            assert_eq!(ptrace(set, child, SYSTEM_CALL, at), 0);
        }
    }
}

/// A tracer skips or replaces system calls, at their entry and at a filter's request.
pub unsafe fn changed_calls() {
    unsafe {
        let filters = [false, true];
        for (filtered, other) in filters
            .into_iter()
            .flat_map(|f| [(f, None), (f, Some(libc::SYS_getuid))])
        {
            let child = traced(move || {
                if filtered {
                    crate::seccomp::ask_tracer(libc::SYS_getpgid);
                }
                let found = libc::syscall(libc::SYS_getpgid, 0);
                println!("the call: {found} {}", *libc::__errno_location());
                libc::_exit(0);
            });
            wait(child);
            let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACESECCOMP;
            tell("options", ptrace(SETOPTIONS, child, 0, options as usize));
            loop {
                let how = if filtered {
                    libc::PTRACE_CONT as u32
                } else {
                    SYSCALL
                };
                go_on(how, child, 0);
                let what = wait(child);
                if !what.starts_with("stop") {
                    println!("{what}");
                    break;
                }
                let mut info = Information::default();
                let at = (&raw mut info) as usize;
                ptrace(SYSTEM_CALL_INFO, child, size_of::<Information>(), at);
                if info.kind & 1 == 1 && info.data[0] == libc::SYS_getpgid as u64 {
                    println!("{what}: kind {}", info.kind);
                    match other {
                        Some(other) => set_call(child, other as i32, None),
                        None => set_call(child, -1, Some(4321)),
                    }
                }
            }
        }
    }
}

/// The filters of a thread: number 0 is the oldest.
pub unsafe fn filters() {
    unsafe {
        const GET_FILTER: u32 = 0x420c;
        const GET_METADATA: u32 = 0x420d;
        let child = traced(|| {
            crate::seccomp::ask_tracer(libc::SYS_getsid);
            crate::seccomp::log_all();
            libc::raise(libc::SIGSTOP);
            libc::_exit(0);
        });
        wait(child);
        let mut asked = [0u64; 2];
        let at = (&raw mut asked) as usize;
        tell("no filter", ptrace(GET_METADATA, child, 16, at));
        go_on(libc::PTRACE_CONT as u32, child, 0);
        println!("{}", wait(child));
        for number in 0..3 {
            asked = [number, 77];
            tell("metadata", ptrace(GET_METADATA, child, 16, at));
            println!("{asked:?}");
            tell("how long", ptrace(GET_FILTER, child, number as usize, 0));
        }
        tell("too short", ptrace(GET_METADATA, child, 4, at));
        let mut instructions = [[0u32; 2]; 8];
        let to = (&raw mut instructions) as usize;
        tell("filter", ptrace(GET_FILTER, child, 1, to));
        println!("{:x?}", instructions[0]);
        go_on(libc::PTRACE_CONT as u32, child, 0);
        println!("{}", wait(child));
    }
}

/// Only a privileged tracer may suspend another thread's filters.
pub unsafe fn suspended() {
    unsafe {
        let filtered = || {
            crate::seccomp::ask_tracer(libc::SYS_getsid);
            let before = libc::getsid(0) < 0;
            libc::raise(libc::SIGSTOP);
            let after = libc::getsid(0) < 0;
            libc::_exit(2 * i32::from(before) + i32::from(after));
        };
        let child = traced(filtered);
        wait(child);
        go_on(CONT, child, 0);
        println!("filtered: {}", wait(child));
        tell("suspend", ptrace(SETOPTIONS, child, 0, SUSPEND_SECCOMP));
        go_on(CONT, child, 0);
        println!("{}", wait(child));
        crate::in_child(|| {
            libc::setuid(1000);
            let child = traced(|| ());
            wait(child);
            tell("as a user", ptrace(SETOPTIONS, child, 0, SUSPEND_SECCOMP));
            go_on(CONT, child, 0);
            println!("{}", wait(child));
        });
    }
}
