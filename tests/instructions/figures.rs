//! The figures of one workload, and how they are read from what callgrind wrote. Compares nothing.

/// What callgrind counted of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    /// As `instructions --list` calls it.
    pub(crate) workload: String,
    /// How often it did what it does.
    pub(crate) operations: u64,
    /// What it does.
    pub(crate) operation: String,
    /// Instructions, hashing left out.
    pub(crate) instructions: u64,
    /// Instructions inside of SHA-256.
    pub(crate) hashing: u64,
}

impl Measured {
    /// From what the workload printed and the profile of it. A fault says what is missing.
    pub(crate) fn read(workload: &str, printed: &str, profile: &str) -> Result<Self, String> {
        let (operations, operation) = printed
            .trim()
            .split_once(' ')
            .ok_or("the workload did not say how many operations it did")?;
        let operations: u64 = operations.parse().map_err(|_| "operations are a number")?;
        let total: u64 = profile
            .lines()
            .find_map(|line| line.strip_prefix("totals: "))
            .ok_or("the profile has no totals")?
            .trim()
            .parse()
            .map_err(|_| "totals are one number")?;
        if operations == 0 || total == 0 {
            return Err("nothing was counted".into());
        }
        let hashing = own_cost(profile, is_compression)?;
        Ok(Self {
            workload: workload.into(),
            operations,
            operation: operation.into(),
            instructions: total
                .checked_sub(hashing)
                .ok_or("a part is not more than the whole")?,
            hashing,
        })
    }
}

/// The instructions of some functions themselves, without what they call.
///
/// A profile with its names written out: `fn=` begins the lines of a function, each of which is a position and a cost;
/// the line after `calls=` is the cost of the called one.
fn own_cost(profile: &str, is_meant: impl Fn(&str) -> bool) -> Result<u64, String> {
    let (mut cost, mut is_inside, mut is_of_call) = (0, false, false);
    for line in profile.lines() {
        if let Some(function) = line.strip_prefix("fn=") {
            is_inside = is_meant(function);
        } else if line.starts_with("calls=") {
            is_of_call = true;
        } else if is_inside && line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
        {
            let own = line.split(' ').nth(1).and_then(|own| own.parse::<u64>().ok());
            let own = own.ok_or_else(|| format!("a position and a cost, not {line:?}"))?;
            cost += if is_of_call { 0 } else { own };
            is_of_call = false;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            is_of_call = false;
        }
    }
    Ok(cost)
}

/// The compression function of SHA-256, whichever the processor gets.
fn is_compression(function: &str) -> bool {
    function.contains("sha256") && function.contains("compress")
}

#[cfg(test)]
mod tests {
    use super::Measured;

    const PROFILE: &str = "\
# callgrind format
events: Ir
summary: 1600

fl=???
fn=validate
0 100
cfn=sha2::sha256::soft::unroll::compress
calls=2 0
0 1500

fn=sha2::sha256::soft::unroll::compress
0 1200
+4 250
cfn=memcpy
calls=1 0
* 30

fn=memcpy
0 20
totals: 1600
";

    #[test]
    fn hashing_is_told_apart_by_what_its_function_does_itself() {
        let measured = Measured::read("validate", "8 step\n", PROFILE).unwrap();
        assert_eq!((measured.instructions, measured.hashing), (150, 1450));
        assert_eq!((measured.operations, measured.operation.as_str()), (8, "step"));
    }

    #[test]
    fn a_run_in_which_nothing_was_counted_is_a_fault() {
        let nothing = PROFILE.replace("totals: 1600", "totals: 0");
        assert!(Measured::read("validate", "8 step", &nothing).is_err());
        assert!(Measured::read("validate", "0 step", PROFILE).is_err());
        assert!(Measured::read("validate", "", PROFILE).is_err());
        assert!(Measured::read("validate", "8 step", "").is_err());
        assert!(Measured::read("validate", "8 step", &PROFILE.replace("+4 250", "+4 x")).is_err());
    }
}
