//! Markdown: the result does not depend on the chunks of the text, and takes a bounded time.

use std::time::Duration;

use loopwright_test_support::browser::Tab;
use serde_json::json;

use crate::fixture::Fixture;

/// Returns the page's markup for a text that arrives in chunks of `chunk` characters.
fn drawn(tab: &Tab, text: &str, chunk: usize) -> String {
    let script = format!(
        "import('./markdown.js').then(({{ Markdown }}) => {{
            const [text, root] = [{}, document.createElement('div')];
            const markdown = new Markdown(root);
            for (let at = 0; at < text.length; at += {chunk})
                markdown.push(text.slice(at, at + {chunk}));
            markdown.end();
            root.querySelectorAll('.head').forEach((one) => one.remove());
            root.normalize();
            return root.innerHTML;
        }})",
        json!(text)
    );
    tab.eval(&script).as_str().unwrap().to_owned()
}

const TEXTS: [(&str, &str); 28] = [
    ("one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"),
    ("# A `b` #\ntext", "<h2>A <code>b</code></h2><p>text</p>"),
    ("####### seven", "<p>####### seven</p>"),
    ("a **b *c* d** e", "<p>a <strong>b <em>c</em> d</strong> e</p>"),
    ("***both***", "<p><strong><em>both</em></strong></p>"),
    ("2 * 3 * 4 and a_b_c and __init__", "<p>2 * 3 * 4 and a_b_c and <strong>init</strong></p>"),
    ("~~gone~~ ~ ~x~", "<p><del>gone</del> ~ ~x~</p>"),
    ("`` a`b `` \\*not\\* `*c*`", "<p><code>a`b</code> *not* <code>*c*</code></p>"),
    ("**open and `open", "<p>**open and `open</p>"),
    (
        "- a\n- b\n  - c\n  - d\n- e",
        "<ul><li>a</li><li>b<ul><li>c</li><li>d</li></ul></li><li>e</li></ul>",
    ),
    ("3. a\n4. b\n\n5. c", "<ol start=\"3\"><li>a</li><li>b</li><li>c</li></ol>"),
    ("1. a\n   - b\n2. c", "<ol start=\"1\"><li>a<ul><li>b</li></ul></li><li>c</li></ol>"),
    ("- a\n  more\n\nend", "<ul><li>a\nmore</li></ul><p>end</p>"),
    ("text\n- a\n1986. b", "<p>text</p><ul><li>a</li></ul><ol start=\"1986\"><li>b</li></ol>"),
    (
        "- [ ] a\n- [x] b",
        concat!(
            "<ul><li><input type=\"checkbox\" disabled=\"\" aria-label=\"a\"> a</li>",
            "<li><input type=\"checkbox\" disabled=\"\" checked=\"\" aria-label=\"b\"> b</li></ul>",
        ),
    ),
    (
        "> a\n> > b\n\nc",
        "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>",
    ),
    (
        "```rust\nlet a = 1;\n\n# no\n```\nend",
        "<pre tabindex=\"0\"><code>let a = 1;\n\n# no\n</code></pre><p>end</p>",
    ),
    (
        "~~~\n```\n~~~\n\n```\nopen",
        "<pre tabindex=\"0\"><code>```\n</code></pre><pre tabindex=\"0\"><code>open\n</code></pre>",
    ),
    (
        "1. a\n   ```\n   b\n     c\n   ```\n2. d",
        concat!(
            "<ol start=\"1\"><li>a</li></ol><pre tabindex=\"0\"><code>b\n  c\n</code></pre>",
            "<ol start=\"2\"><li>d</li></ol>",
        ),
    ),
    (
        "a|b\n-|-\n`c`|**d**\n\ne",
        concat!(
            "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr>",
            "<td><code>c</code></td><td><strong>d</strong></td></tr></tbody></table><p>e</p>",
        ),
    ),
    (
        "a|b|c\n:-|:-:|-:\nd|e|f",
        concat!(
            "<table><thead><tr><th>a</th><th class=\"center\">b</th><th class=\"right\">c</th>",
            "</tr></thead><tbody><tr><td>d</td><td class=\"center\">e</td>",
            "<td class=\"right\">f</td></tr></tbody></table>",
        ),
    ),
    (
        "&copy; &amp;lt; &#8364; &#x1F600; &nothing; &#0; `&amp;`",
        "<p>© &amp;lt; € 😀 &amp;nothing; &amp;#0; <code>&amp;amp;</code></p>",
    ),
    (
        "(see https://x.org/a_b(c)). https://x.org/d)",
        concat!(
            "<p>(see <A https://x.org/a_b(c)>https://x.org/a_b(c)</a>). ",
            "<A https://x.org/d>https://x.org/d</a>)</p>",
        ),
    ),
    (
        "[https://bank.example](https://evil.example/x) [bank.example](https://www.bank.example)",
        concat!(
            "<p><A https://evil.example/x>https://bank.example",
            "<span class=\"host\"> (evil.example)</span></a> ",
            "<A https://www.bank.example/>bank.example</a></p>",
        ),
    ),
    ("a\n\n---\n\n* * *", "<p>a</p><hr><hr>"),
    (
        "[a](https://x.org/b_(c) \"t\") <b> & <a@b>",
        "<p><A https://x.org/b_(c)>a</a> &lt;b&gt; &amp; &lt;a@b&gt;</p>",
    ),
    (
        "see https://x.org/a?b=1, or <mailto:a@x.org>.",
        concat!(
            "<p>see <A https://x.org/a?b=1>https://x.org/a?b=1</a>, ",
            "or <A mailto:a@x.org>mailto:a@x.org</a>.</p>",
        ),
    ),
    (
        "![alt](https://x.org/i.png) [](https://x.org) [a](x.html) [b](ftp://x.org)",
        concat!(
            "<p><A https://x.org/i.png>alt</a> <A https://x.org/>https://x.org/</a> ",
            "[a](x.html) [b](ftp://x.org)</p>",
        ),
    ),
];

/// Shortens links, and removes boxes around lists, tables and code.
fn brief(markup: &str) -> String {
    let mut brief = markup.replace("</div>", "");
    for tag in
        ["<div class=\"list\">", "<div class=\"code\">", "<div class=\"table\" tabindex=\"0\">"]
    {
        brief = brief.replace(tag, "");
    }
    let links = brief.split("<a href=\"").map(|part| match part.split_once("\" title=\"") {
        Some((href, rest)) => {
            let (rel, rest) = rest.split_once('>').unwrap();
            assert!(
                rel.contains("target=\"_blank\" rel=\"noopener noreferrer nofollow\""),
                "{rel}"
            );
            format!("<A {href}>{rest}")
        }
        None => part.to_owned(),
    });
    links.collect()
}

#[test]
fn the_result_does_not_depend_on_the_chunks() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    for (text, wanted) in TEXTS {
        for chunk in [usize::MAX >> 12, 1, 2, 3, 7] {
            assert_eq!(brief(&drawn(&tab, text, chunk)), wanted, "{text:?} in chunks of {chunk}");
        }
    }
    let all = TEXTS.map(|(text, _)| text).join("\n\n");
    let whole = drawn(&tab, &all, usize::MAX >> 12);
    for chunk in [1, 5, 64] {
        assert_eq!(drawn(&tab, &all, chunk), whole, "all of them in chunks of {chunk}");
    }
}

#[test]
fn no_text_takes_long_and_a_finished_block_is_not_redrawn() {
    let fixture = Fixture::new();
    let tab = fixture.tab();
    let large = [
        "*", "_", "**a ", "`", "``a`", "[", "![](", "[a](", "<", "<http://", "https://", "> ", ">",
        "- ", "  - a\n", "| ", "|a\n|-\n", "#", "# ", "\\", "~~", "```\n", "~", " ", "\t", "a ",
        "-", ":-|", "\n", "[[a]", "](", "1. ", "***a**", "_a_",
    ];
    for seed in large {
        let text = seed.repeat(100_000 / seed.len()) + "x";
        let script = format!(
            "import('./markdown.js').then(({{ Markdown }}) => {{
                const markdown = new Markdown(document.createElement('div')), text = {};
                for (let at = 0; at < text.length; at += 5000)
                    markdown.push(text.slice(at, at + 5000));
                markdown.end();
            }})",
            json!(text)
        );
        let before = tab.processor_time();
        tab.eval(&script);
        let took = tab.processor_time() - before;
        println!("{seed:?}: {took:?}");
        assert!(took < Duration::from_secs(5), "{seed:?} takes {took:?}");
    }
    let same_nodes = tab.eval(
        "import('./markdown.js').then(({ Markdown }) => {
            const root = document.createElement('div'), markdown = new Markdown(root);
            markdown.push('# a\\n\\nb\\n\\n- c\\n\\n```\\nd\\n```\\n\\ne');
            const before = [...root.children];
            markdown.push('f\\n\\ng');
            return before.slice(0, -1).every((one, at) => one === root.children[at])
                && root.children.length === before.length + 1;
        })",
    );
    assert_eq!(same_nodes, true);
}
