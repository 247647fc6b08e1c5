//! The first threads: each CPU's idle one, and process 1.

extern crate alloc;

use alloc::sync::Arc;

use super::count_groups::{self, Group};
use super::exec::{self, Request};
use super::initial_stack::Strings;
use super::limits::Limits;
use super::oom_adjust::OomAdjust;
use super::process::{self, Process};
use super::signal::{Actions, Altstack};
use super::thread::{self, Resources, Thread};
#[cfg(feature = "selftest")]
use super::tick;
use super::{
    clock, coredump, credentials::Credentials, current, futex, hung_task, oom_reaper, pid_table,
    sched, watchdog, work_queue,
};
#[cfg(feature = "selftest")]
use crate::arch::irq::{self, Interrupted};
use crate::arch::{self, ThreadState, cpu};
use crate::block;
use crate::errno::Result;
use crate::fs::{self, fs_context::FsShare};
use crate::mm::heap::try_arc;
use crate::mm::vmalloc::KernelStack;
use crate::params;
use crate::sync::Once;

/// The process of the kernel's own threads.
static KERNEL: Once<Arc<Process>> = Once::new();

fn new_process(pid: i32) -> Result<Process> {
    Ok(Process::new(process::Parts {
        pid,
        parent: 0,
        parent_tid: 0,
        group: pid,
        session: pid,
        actions: Actions::new()?,
        limits: &Limits::initial(),
        credentials: try_arc(Credentials::root()?)?,
        program: None,
        exit_signal: 0,
        parent_exec_id: 0,
        borrows_memory: false,
        modes: 0,
        oom_adjust: OomAdjust::default(),
        dump_filter: coredump::FILTER,
        counting: Group::kernel(),
        barriers: 0,
        traced: false,
    }))
}

/// Begins the first thread: the code that this CPU ran until now becomes its idle thread. Called
/// once, on the boot CPU, when memory and the clock are initialised.
pub fn init() {
    clock::init();
    arch::vdso::init(clock::boot_ticks()).expect("memory for the vDSO");
    KERNEL.call_once(|| Arc::new(new_process(0).expect("memory for the first process")));
    start_cpu();
    futex::init();
    work_queue::init().expect("memory for the first thread");
    oom_reaper::init().expect("memory for a thread");
    fs::page_cache::flusher::init().expect("memory for a thread");
    watchdog::init();
    hung_task::init().expect("memory for a thread");
}

/// Turns the code that this CPU ran until now into its idle thread.
pub fn start_cpu() {
    let process = KERNEL.get().expect("task::init ran").clone();
    let idle = Thread::new(thread::Parts {
        arch: ThreadState::adopt_cpu,
        tid: 0,
        credentials: process.credentials(),
        inherited: 0,
        process,
        resources: Resources::default(),
        blocked: !0,
        altstack: Altstack::NONE,
        name: thread::short_name(b"idle"),
        allowed: u64::MAX,
        nice: 0,
        counted: false,
        slack: super::thread::FIRST_SLACK,
        personality: 0,
        clear_tid: 0,
    });
    sched::adopt(Arc::new(idle));
    count_groups::apply(cpu::this(), current().sched.mode());
}

/// Creates a kernel thread that runs `entry(argument)`.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub fn spawn_kernel(name: &str, entry: fn(usize) -> !, argument: usize) -> Result<Arc<Thread>> {
    let arch = ThreadState::new(KernelStack::new()?, entry, argument);
    let process = KERNEL.get().expect("task::init ran").clone();
    let thread = new_thread(arch, 0, process, Resources::default(), name)?;
    sched::start(thread.clone());
    Ok(thread)
}

/// Creates a kernel thread that is expected to panic, and waits.
#[cfg(feature = "selftest")]
pub fn spawn_and_wait_for_panic(entry: fn(usize) -> !, argument: usize) -> ! {
    spawn_kernel("doomed", entry, argument).expect("memory for a thread");
    loop {
        tick::restart(cpu::this());
        sched::schedule();
        irq::service(Interrupted::Kernel);
    }
}

fn new_thread(
    arch: ThreadState,
    tid: i32,
    process: Arc<Process>,
    resources: Resources,
    name: &str,
) -> Result<Arc<Thread>> {
    // The kernel's own threads have no number and are not limited.
    let counted = tid != 0;
    if counted {
        sched::admit()?;
    }
    try_arc(Thread::new(thread::Parts {
        arch: || arch,
        tid,
        credentials: process.credentials(),
        inherited: 0,
        process,
        resources,
        blocked: 0,
        altstack: Altstack::NONE,
        name: thread::short_name(name.as_bytes()),
        allowed: u64::MAX,
        nice: 0,
        counted,
        slack: super::thread::FIRST_SLACK,
        personality: 0,
        clear_tid: 0,
    }))
}

/// Creates process 1, which executes the first program.
pub fn start_init() {
    make_init().expect("memory for process 1");
}

fn make_init() -> Result<()> {
    let pid = pid_table::allocate()?;
    let process = try_arc(new_process(pid)?)?;
    let resources = Resources {
        space: None,
        files: Some(fs::console_descriptors()?),
        fs: Some(FsShare::new(fs::root())?),
        undo_list: None,
    };
    let arch = ThreadState::new(KernelStack::new()?, run_init, 0);
    let thread = new_thread(arch, pid, process.clone(), resources, "init")?;
    process.add_thread(thread.clone())?;
    pid_table::add_first(process);
    pid_table::add_thread(thread.clone());
    sched::start(thread);
    Ok(())
}

/// Tries one program after another.
fn run_init(_: usize) -> ! {
    block::init();
    let chosen = params::get("rdinit").or_else(|| params::get("init"));
    let paths = [
        chosen.unwrap_or("/init"),
        "/sbin/init",
        "/bin/init",
        "/bin/sh",
    ];
    for path in paths {
        match begin(path) {
            Ok(frame) => arch::enter_user(&frame),
            Err(error) => crate::log!("{path}: {error:?}"),
        }
    }
    panic!("no first program");
}

fn begin(path: &str) -> Result<arch::Frame> {
    let mut arguments = Strings::new();
    arguments.push(path.as_bytes())?;
    let mut environment = Strings::new();
    for variable in [
        "HOME=/",
        "TERM=linux",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ] {
        environment.push(variable.as_bytes())?;
    }
    let file = fs::open_program(&current().fs(), None, path.as_bytes(), true)?;
    exec::exec(Request {
        file,
        path: path.as_bytes().to_vec(),
        arguments,
        environment,
    })
}
