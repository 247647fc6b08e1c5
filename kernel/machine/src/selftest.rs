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
const ENDS: [End; 5] = [
    ("panic", asked_panic),
    ("wild-access", wild_access),
    ("overflow", overflow),
    ("self-deadlock", self_deadlock),
    ("read-in-write", read_in_write),
];

/// A deliberate failure, and its name.
#[cfg(feature = "selftest")]
pub type End = (&'static str, fn());

/// Those of the upper kernel.
#[cfg(feature = "selftest")]
static MORE_ENDS: crate::sync::Once<&'static [End]> = crate::sync::Once::new();

#[cfg(feature = "selftest")]
fn ends() -> impl Iterator<Item = &'static End> {
    let more = MORE_ENDS.get().copied().unwrap_or_default();
    ENDS.iter().chain(more)
}

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

/// Takes a lock that it holds.
#[cfg(feature = "selftest")]
#[inline(never)]
fn self_deadlock() {
    static LOCK: crate::sync::Mutex<Guarded> = crate::sync::Mutex::new(Guarded);
    let _first = LOCK.lock();
    let _second = LOCK.lock();
}

/// Reads an address space that it writes.
#[cfg(feature = "selftest")]
#[inline(never)]
fn read_in_write() {
    let lock = crate::mm::space_lock::SpaceLock::new(Guarded).expect("memory for a lock");
    let _writer = lock.write();
    let _reader = lock.read();
}

#[cfg(feature = "selftest")]
struct Guarded;

#[cfg(feature = "selftest")]
impl crate::mm::space_lock::OnUnlock for Guarded {
    fn on_unlock(&mut self, _counted: impl FnOnce() -> usize) {}
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
/// function, which does not return, in a thread of its own; `more` are deliberate failures.
#[cfg(feature = "selftest")]
pub fn run(doom: fn(fn(usize) -> !, usize) -> !, more: &'static [End]) -> ! {
    MORE_ENDS.call_once(|| more);
    on_idle_stack();
    while overflowing_cpu().is_some() {
        core::hint::spin_loop();
    }
    let asked = crate::params::get("selftest");
    if let Some(end) = ends().position(|(name, _)| asked == Some(name)) {
        doom(
            |end| {
                ends().nth(end).expect("found before").1();
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
