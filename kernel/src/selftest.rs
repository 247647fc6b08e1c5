//! Unit tests that run inside the machine: feature `selftest`, boot parameter `selftest`. Each prints one line.

/// A test: its path, and what it does.
#[cfg(feature = "selftest")]
pub struct Test {
    /// The module and function.
    pub name: &'static str,
    /// Panics when it fails.
    pub run: fn(),
}

/// Declares tests: functions without arguments that panic when they fail.
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

/// Registers one test.
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

/// The test that runs, for the panic's report.
#[cfg(feature = "selftest")]
static RUNNING: crate::sync::Mutex<Option<&'static str>> = crate::sync::Mutex::new(None);

/// Runs all tests and ends the machine. The first that fails ends it by its panic.
#[cfg(feature = "selftest")]
pub fn run() -> ! {
    for test in crate::arch::selftests() {
        let name = test
            .name
            .split_once("::")
            .map_or(test.name, |(_, name)| name);
        *RUNNING.lock() = Some(name);
        (test.run)();
        crate::log!("selftest {name} ok");
    }
    crate::arch::power::off()
}

/// Says which test a panic is the failure of.
#[cfg(feature = "selftest")]
pub fn report_failure(reason: core::fmt::Arguments) {
    if let Some(name) = RUNNING.try_lock().and_then(|running| *running) {
        crate::log!("selftest {name} FAILED {reason}");
    }
}
