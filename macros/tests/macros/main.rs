//! `#[tool]`, `#[tools]` and `#[main]`: the generated code, the behaviour of the tools, and the
//! errors of the compiler.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod functions;
mod methods;
mod returns;

/// C323: An error of the macros says what to do, at the position to change.
#[test]
fn errors_of_the_compiler_name_the_remedy() {
    trybuild::TestCases::new().compile_fail("tests/errors/*.rs");
}

/// C324: A program needs no runtime of its own: `#[loopwright::main]` starts one.
#[test]
fn main_runs_an_async_function_and_returns_its_value() {
    #[loopwright::main]
    async fn main() -> Result<u32, std::num::ParseIntError> {
        let parsed = tokio::spawn(async { "x".parse::<u32>() }).await;
        parsed.unwrap_or(Ok(7))
    }
    assert!(main().is_err());
}
