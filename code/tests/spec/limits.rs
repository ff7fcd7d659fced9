//! Scripts that use too much: the agent's process is unharmed, and the model sees why.

use std::time::Duration;

use loopwright_code::CodeMode;

use crate::kit::{code_mode, interpreter, output, output_with};

/// C547: A script that computes too long or uses too much memory ends, and the agent continues.
#[tokio::test]
async fn time_and_memory_are_limited() {
    let small = || {
        let interpreter = interpreter().time(Duration::from_secs(1)).memory(32 << 20);
        CodeMode::new(interpreter)
    };
    for (code, error) in [
        ("while True: pass", "TimeoutError"),
        ("x = 3\nfor i in range(60): x = x * x", "Error"),
        ("sum(range(10**12))", "TimeoutError"),
        ("a = []\nwhile True: a.append('x' * 90000)", "MemoryError"),
        ("a = 'x'\nwhile True: a = a + a", "MemoryError"),
        ("'x' * (1 << 60)", "MemoryError"),
        ("[0] * (1 << 40)", "MemoryError"),
        ("2 ** (10 ** 10)", "MemoryError"),
        ("while True: print('x' * 10000)", "MemoryError"),
        ("def f(): return f()\nf()", "RecursionError"),
    ] {
        let output = output_with(small(), code, |agent| agent).await;
        assert!(
            output.starts_with("The script failed") && output.contains(error),
            "{code}: {output}"
        );
        assert!(output.len() < 40_000, "{code}: {}", output.len());
    }
}

/// C547: Expressions and values that are nested deep do not end the agent's process.
#[tokio::test]
async fn deep_nesting_does_not_end_the_process() {
    let deep = 1_000_000;
    let nested = |close: &str| format!("a = []\nfor i in range({deep}): a = [a]\n{close}");
    for code in [
        "(".repeat(100_000) + &")".repeat(100_000),
        "[".repeat(100_000),
        "{1:".repeat(100_000),
        "-".repeat(100_000) + "1",
        vec!["1"; 200_000].join("+"),
        "a".to_owned() + &".a".repeat(200_000),
        "a".to_owned() + &"()".repeat(200_000),
        "a".to_owned() + &"[0]".repeat(200_000),
        "9".repeat(100_000),
        nested("a"),
        nested("repr(a)"),
        nested("import json\njson.dumps(a)"),
        nested("a == a[0]"),
        nested("await get_order(number=a)"),
        "import re\nre.match('(a+)+$', 'a' * 60 + 'b')".to_owned(),
        "import json\njson.loads('[' * 100000)".to_owned(),
    ] {
        let output = output(&code).await;
        assert!(output.len() < 40_000, "{}: {}", &code[..20], output.len());
        assert!(!output.is_empty());
    }
}

/// C547: The number of calls and the length of the output are limited.
#[tokio::test]
async fn calls_and_output_are_limited() {
    let code = "for n in range(14, 30): await get_order(number=n)";
    let output = output_with(code_mode().max_calls(5), code, |agent| agent).await;
    let expected = "The script was stopped after these calls: get_order × 5, since it made more \
        than 5 calls.";
    assert_eq!(output, expected);

    let output = crate::kit::output("print('ä' * 100000)\n'end' * 3").await;
    assert!(output.len() < 20_000 && output.contains("bytes left out"), "{}", output.len());
    assert!(output.ends_with("endendend"));
}
