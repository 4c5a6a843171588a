//! The bars of the design, group by group. Each group takes what it needs and gives its bars.

mod large;
mod small;

use std::process::ExitCode;

use escapement_tests::Fault;

use crate::options::Options;
use crate::report::Bar;

/// Measures what was asked for and prints each bar as soon as it stands.
///
/// # Errors
/// Something did not run at all; a bar that is not met is no error.
pub(crate) async fn measure(options: &Options) -> Result<ExitCode, Fault> {
    let (mut n_bars, mut n_met) = (0, 0);
    let mut tell = |bars: Vec<Bar>| {
        for bar in bars {
            println!("{}\n{}", bar.text(), bar.json());
            n_bars += 1;
            n_met += usize::from(bar.is_met());
        }
    };
    let extent = &options.extent;
    if options.selects("single") {
        tell(small::single(extent).await?);
    }
    if options.selects("three") {
        tell(small::three(extent).await?);
    }
    if options.selects("chain") {
        tell(large::chain(extent).await?);
    }
    if options.selects("independent") {
        tell(large::independent(extent).await?);
    }
    println!(r#"{{"bars":{n_bars},"met":{n_met}}}"#);
    Ok(ExitCode::from(u8::from(n_met < n_bars)))
}
