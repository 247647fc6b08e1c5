//! Unit tests that run inside the machine: feature `selftest`, boot parameter `selftest`. Each
//! prints one line.

/// A test: its path and its function.
#[cfg(feature = "selftest")]
pub struct Test {
    /// The module and function.
    pub name: &'static str,
    /// The function, which panics on failure.
    pub run: fn(),
}

/// Declares tests: functions without arguments that panic on failure.
#[macro_export]
macro_rules! selftest {
    ($($(#[$attribute:meta])* fn $name:ident() $body:block)*) => {
        $(
            $(#[$attribute])*
            fn $name() $body
            $crate::selftest_entry!($name);
        )*
    };
}

/// Registers a test.
#[macro_export]
macro_rules! selftest_entry {
    ($name:ident) => {
        const _: () = {
            #[used]
            #[cfg_attr(feature = "selftest", unsafe(link_section = ".selftests"))]
            static TEST: $crate::selftest::Test = $crate::selftest::Test {
                name: concat!(module_path!(), "::", stringify!($name)),
                run: $name,
            };
        };
    };
}

/// The running test, for the panic report.
#[cfg(feature = "selftest")]
static RUNNING: crate::sync::Mutex<Option<&'static str>> = crate::sync::Mutex::new(None);

/// Deliberate failures, by the values of the parameter `selftest` that select them; they happen in
/// a kernel thread.
#[cfg(feature = "selftest")]
const ENDS: [(&str, fn()); 3] = [
    ("panic", asked_panic),
    ("wild-access", wild_access),
    ("overflow", overflow),
];

#[cfg(feature = "selftest")]
#[inline(never)]
fn asked_panic() {
    panic!("as asked");
}

/// Reads an unmapped address.
#[cfg(feature = "selftest")]
#[inline(never)]
fn wild_access() {
    // SAFETY: deliberately unsound: the test is that this exception ends the kernel.
    unsafe {
        (crate::arch::mmu::VMALLOC.end as *const u8)
            .sub(1)
            .read_volatile()
    };
}

#[cfg(feature = "selftest")]
fn overflow() {
    assert!(endless(0) > 0);
}

/// Recurses until the stack overflows.
#[cfg(feature = "selftest")]
fn endless(depth: u64) -> u64 {
    let frame = core::hint::black_box([depth; 32]);
    match frame[0] {
        u64::MAX => 1,
        _ => endless(depth + 1) + core::hint::black_box(frame)[1],
    }
}

/// The CPU in `selftest=overflow-cpuN`, whose idle stack shall overflow.
#[cfg(feature = "selftest")]
fn overflowing_cpu() -> Option<usize> {
    crate::params::get("selftest")?
        .strip_prefix("overflow-cpu")?
        .parse()
        .ok()
}

/// Called by every CPU on its idle stack.
#[cfg(feature = "selftest")]
pub fn on_idle_stack() {
    if overflowing_cpu() == Some(crate::arch::cpu::this().index()) {
        overflow();
    }
}

/// Runs all tests and turns the machine off. The first failure ends it by a panic. `doom` calls a
/// function, which does not return, in a thread of its own.
#[cfg(feature = "selftest")]
pub fn run(doom: fn(fn(usize) -> !, usize) -> !) -> ! {
    on_idle_stack();
    while overflowing_cpu().is_some() {
        core::hint::spin_loop();
    }
    let asked = crate::params::get("selftest");
    if let Some(end) = ENDS.iter().position(|(name, _)| asked == Some(name)) {
        doom(
            |end| {
                ENDS[end].1();
                unreachable!("a good end")
            },
            end,
        );
    }
    for test in crate::arch::selftests() {
        let name = test
            .name
            .split_once("::")
            .map_or(test.name, |(_, name)| name);
        *RUNNING.lock() = Some(name);
        // Logged before the test, in case it hangs.
        crate::log!("selftest {name}");
        (test.run)();
        crate::log!("selftest {name} ok");
    }
    crate::arch::power::off()
}

/// Reports a panic as the failure of the running test.
#[cfg(feature = "selftest")]
pub fn report_failure(reason: core::fmt::Arguments) {
    if let Some(name) = RUNNING.try_lock().and_then(|running| *running) {
        crate::log!("selftest {name} FAILED {reason}");
    }
}
