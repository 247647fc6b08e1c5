//! Choices of calls on files.

use super::*;

pub unsafe fn memory_files() {
    unsafe {
        // A kernel may lack huge pages (bit 2).
        let known = (0..32).filter(|&bit| bit != 2);
        table("memfd_create", known.map(|bit| 1 << bit), |flags| {
            closed(libc::syscall(libc::SYS_memfd_create, c"it".as_ptr(), flags))
        });
        table("memfd_create", [0x18, 0x0a, 0x12].into_iter(), |flags| {
            closed(libc::syscall(libc::SYS_memfd_create, c"it".as_ptr(), flags))
        });
        let mut bytes = [0u8; 16];
        bits("getrandom", 32, |flags| {
            libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), 16, flags)
        });
        table("getrandom", [3, 5, 6, 7].into_iter(), |flags| {
            libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), 16, flags)
        });
    }
}

pub unsafe fn paths() {
    unsafe {
        libc::close(file(IT, 1));
        bits("resolve of openat2", 40, |resolve| {
            let how = [0u64, 0, resolve];
            closed(libc::syscall(
                libc::SYS_openat2,
                AT_FDCWD,
                path(IT),
                &how,
                24,
            ))
        });
        table(
            "resolve of openat2, both",
            [0x18, 0x28].into_iter(),
            |resolve| {
                let how = [0u64, 0, resolve];
                closed(libc::syscall(
                    libc::SYS_openat2,
                    AT_FDCWD,
                    path(IT),
                    &how,
                    24,
                ))
            },
        );
        // Linux ignores bit 25, its own FMODE_NONOTIFY.
        let known = (0..40).filter(|&bit| bit != 25 && !VARYING.contains(&bit));
        table("flags of openat2", known.map(|bit| 1 << bit), |flags| {
            let how = [flags, 0, 0];
            closed(libc::syscall(
                libc::SYS_openat2,
                AT_FDCWD,
                path(IT),
                &how,
                24,
            ))
        });
        let mut told = [0u64; 32];
        bits("statx", 32, |flags| {
            libc::syscall(
                libc::SYS_statx,
                AT_FDCWD,
                path(IT),
                flags,
                0,
                told.as_mut_ptr(),
            )
        });
        bits("mask of statx", 32, |mask| {
            libc::syscall(
                libc::SYS_statx,
                AT_FDCWD,
                path(IT),
                0,
                mask,
                told.as_mut_ptr(),
            )
        });
        for mask in [0, 0x1000, 0x2000, 0x4000, 0x8000, 0x10000, 0x7ff] {
            libc::syscall(
                libc::SYS_statx,
                AT_FDCWD,
                path(IT),
                0,
                mask,
                told.as_mut_ptr(),
            );
            println!(
                "statx of {mask:#x} has {:#x}, alignment {:#x}",
                told[0] as u32, told[19]
            );
        }
        let mut stat: libc::stat = mem::zeroed();
        bits("newfstatat", 32, |flags| {
            libc::syscall(libc::SYS_newfstatat, AT_FDCWD, path(IT), &mut stat, flags)
        });
        for (name, number) in [("faccessat2", 439), ("fchmodat2", 452)] {
            bits(name, 32, |flags| {
                libc::syscall(number, AT_FDCWD, path(IT), 0o4, flags)
            });
        }
        bits("mode of faccessat", 32, |mode| {
            libc::syscall(libc::SYS_faccessat, AT_FDCWD, path(IT), mode)
        });
        bits("fchownat", 32, |flags| {
            libc::syscall(libc::SYS_fchownat, AT_FDCWD, path(IT), -1, -1, flags)
        });
        bits("utimensat", 32, |flags| {
            libc::syscall(libc::SYS_utimensat, AT_FDCWD, path(IT), 0, flags)
        });
        bits("linkat", 32, |flags| {
            let result = libc::syscall(
                libc::SYS_linkat,
                AT_FDCWD,
                path(IT),
                AT_FDCWD,
                path(TWO),
                flags,
            );
            libc::unlink(path(TWO));
            result
        });
        bits("unlinkat", 32, |flags| {
            libc::syscall(libc::SYS_unlinkat, AT_FDCWD, path(NONE), flags)
        });
        bits("renameat2", 32, |flags| {
            libc::syscall(
                libc::SYS_renameat2,
                AT_FDCWD,
                path(NONE),
                AT_FDCWD,
                path(IT),
                flags,
            )
        });
        bits("umount2", 32, |flags| {
            libc::syscall(libc::SYS_umount2, path(NONE), flags)
        });
        bits("name_to_handle_at", 32, |flags| {
            let mut handle = [
                128u32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ];
            let mut mount = 0u64;
            libc::syscall(
                libc::SYS_name_to_handle_at,
                AT_FDCWD,
                path(IT),
                handle.as_mut_ptr(),
                &mut mount,
                flags,
            )
        });
        bits("setxattr", 32, |flags| {
            libc::syscall(
                libc::SYS_setxattr,
                path(IT),
                path(c"user.it"),
                path(c"a"),
                1,
                flags,
            )
        });
    }
}

pub unsafe fn files() {
    unsafe {
        let it = file(IT, 8);
        numbers("lseek", 8, |whence| {
            libc::syscall(libc::SYS_lseek, it, 0, whence)
        });
        numbers("flock", 9, |operation| {
            libc::syscall(libc::SYS_flock, it, operation)
        });
        bits("flock", 12, |operation| {
            libc::syscall(libc::SYS_flock, it, operation | 8)
        });
        libc::close(it);
    }
}
