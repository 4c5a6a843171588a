use super::*;

const TIME: Range<u64> = 1_000..2_000;

fn only(open_metrics: &str) -> Metric {
    let mut found = metrics(open_metrics, &TIME);
    assert_eq!(found.len(), 1, "{found:?}");
    found.pop().unwrap()
}

#[test]
fn a_counter_keeps_the_name_of_queries_and_counts_from_the_start() {
    let metric = only(
        "# HELP settled_executions Executions that ended.\n# TYPE settled_executions counter\n\
         settled_executions_total{status=\"success\",namespace=\"a\"} 18446744\nsettled_executions_total 0.25\n# EOF\n",
    );
    assert_eq!(metric.name, "settled_executions_total");
    assert_eq!(metric.description, "Executions that ended.");
    assert_eq!(metric.unit, "");
    let Some(Data::Sum(sum)) = metric.data else {
        panic!("{metric:?}")
    };
    assert!(sum.is_monotonic);
    assert_eq!(
        sum.aggregation_temporality,
        AggregationTemporality::Cumulative as i32
    );
    let [first, second] = sum.data_points.as_slice() else {
        panic!("{sum:?}")
    };
    assert_eq!(
        first.attributes,
        [text("status", "success"), text("namespace", "a")]
    );
    assert_eq!(first.value, Some(Value::AsInt(18_446_744)));
    assert_eq!(
        (first.start_time_unix_nano, first.time_unix_nano),
        (TIME.start, TIME.end)
    );
    assert_eq!(second.attributes, []);
    assert_eq!(second.value, Some(Value::AsDouble(0.25)));
}

#[test]
fn a_gauge_is_what_it_is_now() {
    let metric = only("# HELP free_bytes Free.\n# TYPE free_bytes gauge\nfree_bytes -3\n# EOF\n");
    assert_eq!((metric.name.as_str(), metric.unit.as_str()), ("free_bytes", "By"));
    let Some(Data::Gauge(gauge)) = metric.data else {
        panic!("{metric:?}")
    };
    let point = &gauge.data_points[0];
    assert_eq!(point.value, Some(Value::AsInt(-3)));
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (0, TIME.end));
}

#[test]
fn each_bucket_of_a_histogram_counts_its_own() {
    let metric = only(
        "# HELP took_seconds Time.\n# TYPE took_seconds histogram\n\
         took_seconds_sum{a=\"x\"} 1.5\ntook_seconds_count{a=\"x\"} 6\n\
         took_seconds_bucket{le=\"0.1\",a=\"x\"} 1\n\
         took_seconds_bucket{le=\"1.0\",a=\"x\"} 4 # {trace_id=\"000000000000000000000000000000ff\"} 0.25 1.5\n\
         took_seconds_bucket{le=\"+Inf\",a=\"x\"} 6\n\
         took_seconds_sum{a=\"y\"} 0.0\ntook_seconds_count{a=\"y\"} 0\n\
         took_seconds_bucket{le=\"0.1\",a=\"y\"} 0\ntook_seconds_bucket{le=\"1.0\",a=\"y\"} 0\n\
         took_seconds_bucket{le=\"+Inf\",a=\"y\"} 0\n# EOF\n",
    );
    assert_eq!(metric.unit, "s");
    let Some(Data::Histogram(histogram)) = metric.data else {
        panic!("{metric:?}")
    };
    let [x, y] = histogram.data_points.as_slice() else {
        panic!("{histogram:?}")
    };
    assert_eq!(x.attributes, [text("a", "x")]);
    assert_eq!((x.count, x.sum), (6, Some(1.5)));
    assert_eq!(x.explicit_bounds, [0.1, 1.0]);
    assert_eq!(x.bucket_counts, [1, 3, 2]);
    let [exemplar] = x.exemplars.as_slice() else {
        panic!("{x:?}")
    };
    assert_eq!(exemplar.trace_id, [[0; 15].as_slice(), &[255]].concat());
    assert_eq!(exemplar.value, Some(ExemplarValue::AsDouble(0.25)));
    assert_eq!(exemplar.time_unix_nano, 1_500_000_000);
    assert_eq!(y.attributes, [text("a", "y")]);
    assert_eq!(y.bucket_counts, [0, 0, 0]);
}

#[test]
fn a_label_may_hold_anything() {
    let metric = only("# TYPE up gauge\nup{a=\"q\\\"},{=\\\\\\n\",b=\"é\"} 1\n");
    let Some(Data::Gauge(gauge)) = metric.data else {
        panic!("{metric:?}")
    };
    assert_eq!(
        gauge.data_points[0].attributes,
        [text("a", "q\"},{=\\\n"), text("b", "é")]
    );
}

#[test]
fn what_is_no_figure_is_left_out() {
    let text = "# TYPE a info\na_info{b=\"c\"} 1\n# TYPE d gauge\n# TYPE e gauge\ne nothing\ne{f\n\n# EOF\n";
    assert_eq!(metrics(text, &TIME), []);
}
