//! Mounts of proc that hide processes.

use std::ffi::CString;
use std::fs;

use super::processes::subjects;
use super::{OTHER, USER, become_user_in, trial};
use crate::{error, in_child, tell, tell_end};

const AT: &str = "/tmp/hiding";
const OPTIONS: [&str; 6] = [
    "hidepid=0",
    "hidepid=1",
    "hidepid=2",
    "hidepid=4",
    "hidepid=2,gid=1001",
    "hidepid=4,gid=1001",
];

/// Runs this part.
pub fn run() {
    let subjects = subjects();
    _ = fs::create_dir(AT);
    let at = CString::new(AT).expect("no zero");
    let kind = c"proc".as_ptr();
    for options in OPTIONS {
        println!("{options}");
        let list = CString::new(options).expect("no zero");
        // SAFETY: every string ends with zero.
        tell("mount", unsafe {
            libc::mount(kind, at.as_ptr(), kind, 0, list.as_ptr().cast())
        });
        for (who, groups) in [("a user", &[][..]), ("a user of the group", &[OTHER])] {
            let look = || {
                become_user_in(USER, groups);
                for subject in &subjects {
                    let pid = subject.pid().to_string();
                    let mut listed = fs::read_dir(AT).into_iter().flatten().flatten();
                    let listed = listed.any(|entry| *entry.file_name() == *pid);
                    let directory = trial::outcome(&format!("{AT}/{pid}"));
                    println!("  {}: listed {listed}, {directory}", subject.what());
                    for member in ["stat", "maps", "fd", "cwd", "task"] {
                        let outcome = trial::outcome(&format!("{AT}/{pid}/{member}"));
                        println!("    {member}: {outcome}");
                    }
                }
                for name in ["self", "thread-self", "self/stat", "self/task", "uptime"] {
                    println!("  {name}: {}", trial::outcome(&format!("{AT}/{name}")));
                }
            };
            tell_end(who, in_child(look));
        }
        // SAFETY: the path ends with zero.
        if unsafe { libc::umount(at.as_ptr()) } != 0 {
            println!("umount: {}", error());
        }
    }
}
