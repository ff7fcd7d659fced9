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

/// A type that has the same name as one in the macro's code.
type Of<T> = Vec<T>;

/// C324: A program needs no runtime of its own: `#[loopwright::main]` starts one.
#[test]
fn main_runs_an_async_function_and_returns_its_exit_code() {
    #[loopwright::main]
    async fn main() -> std::process::ExitCode {
        let parsed = tokio::spawn(async { "7".parse::<u8>() }).await;
        parsed.unwrap().unwrap().into()
    }
    #[loopwright::main]
    async fn without_value() {}
    assert_eq!(main(), 7.into());
    assert_eq!(without_value(), std::process::ExitCode::SUCCESS);

    #[allow(dead_code, reason = "it only has to compile")]
    #[loopwright::main]
    async fn without_end() -> ! {
        let _: Of<u8>; // the type of the test, not of the macro
        loop {
            std::future::pending::<()>().await
        }
    }
}

/// C324: The error of a program is printed as the text for its user.
#[test]
fn main_prints_the_text_of_an_error() {
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "a_program_that_fails", "--ignored", "--nocapture"]);
    let printed = program.output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&printed.stdout), String::from_utf8_lossy(&printed.stderr));
    assert!(printed.status.success(), "{out}{err}");
    assert!(err.contains("Error: invalid digit found in string\n"), "{err}");
    assert_eq!(err.matches("Error: the bill cannot be read: gone\n").count(), 2, "{err}");
    assert!(err.contains("Error: a text\n"), "{err}");
    assert!(err.contains("Error: Silent\n"), "{err}");
}

#[test]
#[ignore = "another test runs it, and reads what it prints"]
fn a_program_that_fails() {
    #[derive(Debug)]
    struct Silent;

    #[derive(Debug)]
    struct Unread(std::io::Error);

    impl std::fmt::Display for Unread {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the bill cannot be read")
        }
    }

    impl std::error::Error for Unread {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    fn unread() -> Unread {
        Unread(std::io::Error::other("gone"))
    }

    #[loopwright::main]
    async fn main() -> Result<(), Box<dyn std::error::Error>> {
        Err("x".parse::<u32>().unwrap_err().into())
    }
    #[loopwright::main]
    async fn with_cause() -> Result<(), Unread> {
        Err(unread())
    }
    #[loopwright::main]
    async fn with_boxed_cause() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Err(unread().into())
    }
    #[loopwright::main]
    async fn with_text() -> Result<(), &'static str> {
        Err("a text")
    }
    #[loopwright::main]
    async fn without_text() -> Result<(), Silent> {
        Err(Silent)
    }
    let failure = std::process::ExitCode::FAILURE;
    let codes = [main(), with_cause(), with_boxed_cause(), with_text(), without_text()];
    assert_eq!(codes, [failure; 5]);
}
