//! `models` and the user's own catalogue, from which `run` computes the cost of a reply.

use std::fs;

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Exit, project};
use serde_json::Value;
use tempfile::TempDir;

use crate::BIN;

const ACME: &str =
    "[\"acme/big\"]\ncontext_window = 32_768\nprices = { input = 1.0, output = 4.0 }\n";

/// Creates a project with a list of models at `path`.
fn project_with(path: &str, list: &str) -> TempDir {
    let project = project();
    let file = project.path().join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, list).unwrap();
    project
}

fn listed(project: &TempDir, args: &[&str], vars: &[(&str, &str)]) -> Exit {
    BIN.start_with(project, &[&["models"], args].concat(), vars).end()
}

#[test]
fn a_table_of_what_is_known() {
    let exit = BIN.run(&project(), &["models", "CLAUDE-HAIKU-4"]);
    assert_eq!((exit.code, exit.err.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> =
        exit.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0].join(" "), "MODEL WIRE CONTEXT OUTPUT $ IN $ OUT THINKS IMAGES");
    assert_eq!(
        rows[1],
        ["anthropic/claude-haiku-4-5", "anthropic", "200k", "64k", "1.00", "5.00", "yes", "yes"]
    );
    assert_eq!(rows.len(), 2);
    let all = BIN.run(&project(), &["models"]);
    assert!(all.out.lines().count() > 60 && all.out.contains("\nxai/grok-4.3 "), "{}", all.out);
    assert!(all.out.lines().all(|line| !line.ends_with(' ')));
}

#[test]
fn json_has_a_model_on_each_line() {
    let exit = BIN.run(&project(), &["models", "--json", "mistral-large"]);
    let models: Vec<Value> =
        exit.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<&Value> = models.iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["mistral/mistral-large-2512", "mistral/mistral-large-4"]);
    assert_eq!(
        (&models[0]["provider"], &models[0]["wire"]),
        (&"mistral".into(), &"openai-chat".into())
    );
    assert_eq!(models[0]["prices"]["output"], 1.5);
    assert_eq!((&models[1]["prices"], &models[1]["max_output"]), (&Value::Null, &Value::Null));
}

#[test]
fn no_model_that_fits_is_1_and_a_sentence() {
    let exit = BIN.run(&project(), &["models", "no-such-model"]);
    assert_eq!((exit.code, exit.out.as_str()), (1, ""));
    assert!(exit.err.contains("no known model has `no-such-model` in its name"), "{exit:?}");
}

#[test]
fn ones_own_list_is_found_wherever_it_may_be() {
    for (path, args, vars) in [
        ("mine.toml", &["--models", "mine.toml"][..], &[][..]),
        ("mine.toml", &[], &[("LOOPWRIGHT_MODELS", "mine.toml")]),
        ("mine.toml", &["--models", "mine.toml"], &[("LOOPWRIGHT_MODELS", "no-such-file")]),
        ("etc/loopwright/models.toml", &[], &[("XDG_CONFIG_HOME", "etc"), ("HOME", "home")]),
        ("home/.config/loopwright/models.toml", &[], &[("HOME", "home")]),
    ] {
        let exit = listed(&project_with(path, ACME), &[&["acme"], args].concat(), vars);
        let row = exit.out.lines().nth(1).unwrap_or_else(|| panic!("{path}: {exit:?}"));
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>().join(" "),
            "acme/big openai-chat 32k ? 1.00 4.00 ? ?"
        );
        assert_eq!((exit.code, exit.err.as_str()), (0, ""));
    }
}

#[test]
fn a_bad_list_that_was_asked_for_is_2_and_names_entry_and_field() {
    let project = project_with("mine.toml", "[\"acme/big\"]\ncontxt = 1");
    for args in [
        &["models", "--models", "mine.toml"][..],
        &["run", "--models", "mine.toml", "--model", "acme/big", "x"],
    ] {
        let exit = BIN.run(&project, args);
        assert!(exit.code == 2 && exit.out.is_empty(), "{exit:?}");
        for word in ["mine.toml", "`acme/big`", "`contxt`", "`context_window`"] {
            assert!(exit.err.contains(word), "{exit:?}");
        }
    }
    let exit = BIN.run(&project, &["models", "--models", "nowhere.toml"]);
    assert!(
        exit.code == 2 && exit.err.contains("The model list nowhere.toml cannot be read"),
        "{exit:?}"
    );
}

#[test]
fn an_invalid_list_in_the_default_directory_is_reported_and_ignored() {
    let project = project_with("etc/loopwright/models.toml", "[acme/big]");
    let exit = listed(&project, &["gpt-4o-mini"], &[("XDG_CONFIG_HOME", "etc")]);
    assert!(exit.code == 0 && exit.out.contains("openai/gpt-4o-mini"), "{exit:?}");
    assert!(
        exit.err.contains("models.toml cannot be read at line 1")
            && exit.err.contains("The file is ignored"),
        "{exit:?}"
    );
}

/// Returns the cost of the run from its last event.
fn cost(id: &str, input: u64, output: u64) -> f64 {
    let (server, project) = (Server::start(), project_with("mine.toml", ACME));
    let args = [
        "run",
        "--json",
        "--model",
        id,
        "--base-url",
        &server.url,
        "--models",
        "mine.toml",
        "Hello",
    ];
    let run = BIN.start(&project, &args);
    server.request().reply_with_usage("Hi.", input, output);
    let exit = run.end();
    assert_eq!(exit.code, 0, "{exit:?}");
    let end: Value = serde_json::from_str(exit.out.lines().last().unwrap()).unwrap();
    assert_eq!((&end["type"], &end["usage"]["input"]), (&"agent_end".into(), &input.into()));
    end["cost"].as_f64().unwrap()
}

#[test]
fn a_run_says_what_it_cost() {
    let near = |cost: f64, expected: f64| {
        assert!((cost - expected).abs() < 1e-12, "{cost} instead of {expected}")
    };
    near(cost("openai/gpt-4o-mini", 1000, 100), 1000.0 * 0.15e-6 + 100.0 * 0.6e-6);
    near(cost("acme/big", 1000, 100), 1000.0 * 1e-6 + 100.0 * 4e-6);
    near(cost("openai/gpt-6-sol", 300_000, 100), 300_000.0 * 4e-6 + 100.0 * 15e-6);
    near(cost("openai/unheard-of", 1000, 100), 0.0);
}
