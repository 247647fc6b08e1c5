//! proptest with a process of the kernel for each case.

use std::any::Any;

use hosted::try_run;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Tries values, the same in every run, each in its own process.
pub fn each<S: Strategy>(strategy: S, test: fn(S::Value))
where
    S::Value: Send + Clone + 'static,
{
    let cases = if cfg!(miri) { 2 } else { 128 };
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let result = runner.run(&strategy, |value| {
        try_run(move || test(value)).map_or(Ok(()), |result| {
            result.map_err(|why| TestCaseError::fail(said(&*why)))
        })
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

/// The message of a panic.
fn said(why: &dyn Any) -> String {
    let text = why.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| why.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}
