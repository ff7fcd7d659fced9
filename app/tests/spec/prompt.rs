//! `run` with a prompt from the command line or from standard input.

use loopwright_test_support::process::project;

use crate::BIN;

#[test]
fn a_tool_is_called_on_a_real_file_and_the_answer_quotes_it() {
    let prompt = "Read Cargo.toml and say in one sentence what this project is";
    let exit = BIN.run(&project(), &["run", "--model", "offline", prompt]);
    assert_eq!(exit.code, 0, "{exit:?}");
    assert!(
        exit.err.contains("→ read_file {\"path\":\"Cargo.toml\"}\n✓ read_file (3 lines)\n"),
        "{exit:?}"
    );
    assert!(exit.err.contains("not a language model"), "{exit:?}");
    assert!(exit.out.contains("Counts sheep for engineers"), "{exit:?}");
    assert!(
        exit.out.ends_with('\n') && !exit.out.contains('→') && !exit.err.contains('\u{1b}'),
        "{exit:?}"
    );
}

#[test]
fn the_prompt_comes_from_standard_input_where_it_is_missing_or_a_dash() {
    let project = project();
    for args in [&["run", "--model", "offline"][..], &["run", "--model", "offline", "-"]] {
        let mut run = BIN.piped(&project, args);
        run.line("Read");
        run.line("Cargo.toml");
        let exit = run.close();
        assert_eq!(exit.code, 0, "{exit:?}");
        assert!(exit.out.contains("Counts sheep"), "{exit:?}");
    }
}

#[test]
fn root_is_where_the_tools_work() {
    let (project, other_dir) = (project(), tempfile::tempdir().unwrap());
    let root = project.path().display().to_string();
    let exit =
        BIN.run(&other_dir, &["run", "--model", "offline", "--root", &root, "Read Cargo.toml"]);
    assert!(exit.code == 0 && exit.out.contains("Counts sheep"), "{exit:?}");
    let exit = BIN.run(&other_dir, &["run", "--model", "offline", "Read Cargo.toml"]);
    assert!(
        exit.code == 0 && exit.err.contains("✗ read_file: `Cargo.toml` does not exist"),
        "{exit:?}"
    );
}
