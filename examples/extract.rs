//! A value of a Rust type from a text, in one call. The model gets the schema of the type.
//!
//! `cargo run --example extract`
//!
//! An answer that does not match is sent back to the model with the errors. The offline model only
//! takes the first quoted text, number and option.

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code, reason = "the example prints the fields")]
struct Train {
    /// The city where it arrives.
    destination: String,
    hour: u8,
    class: Class,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Class {
    Second,
    First,
}

#[loopwright::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = loopwright::model("offline")?;
    let text = r#"The train to "Rome" leaves at 22 o'clock. I would like a bed."#;
    let train: Train = loopwright::extract(model, text).await?;
    println!("{train:?}");
    Ok(())
}
