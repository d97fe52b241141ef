"""What makes departures late? All 111,279 departures of 2013 from New York's JFK airport, and its hourly weather.

An ordinary script, cut into cells by `# %%`. `run.py` sends one cell a call into one session, so each cell finds the
globals and the files that those before it left. Needs NumPy, pandas and Matplotlib only.
"""

# %% Load: two compressed CSV files and a list of names
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

flights = pd.read_csv("flights-jfk-2013.csv.gz")
weather = pd.read_csv("weather-jfk-2013.csv.gz")
airlines = pd.read_csv("airlines.csv")
for name, table in [("flights", flights), ("weather", weather), ("airlines", airlines)]:
    print(f"{name}: {len(table):,} rows, {table.shape[1]} columns, {int(table.isna().sum().sum()):,} values missing")
flights.head(3)[["year", "month", "day", "sched_dep_time", "dep_time", "dep_delay", "carrier", "dest", "time_hour"]]

# %% Clean: real dates, small types, cancelled flights apart
flights["hour_utc"] = pd.to_datetime(flights["time_hour"], utc=True)
flights["scheduled"] = flights["hour_utc"].dt.tz_convert("America/New_York")
flights["carrier"] = flights["carrier"].astype("category")
flights["dest"] = flights["dest"].astype("category")
cancelled = flights["dep_time"].isna()
flown = flights.loc[
    ~cancelled, ["hour_utc", "scheduled", "carrier", "dest", "distance", "dep_delay", "arr_delay"]
].copy()
assert (flights["scheduled"].dt.hour == flights["hour"]).all(), "local hours must match the timetable"
flown.to_csv("flown.csv.gz", index=False)
print(f"{len(flights):,} scheduled, {int(cancelled.sum()):,} cancelled ({cancelled.mean():.2%}), {len(flown):,} flown")
print(f"departure delay in minutes: mean {flown['dep_delay'].mean():.2f}, median {flown['dep_delay'].median():.0f}")
print(f"late by a quarter of an hour or more: {(flown['dep_delay'] >= 15).mean():.1%}")
flown.dtypes.to_frame("type")

# %% Group: which airlines run late
by_airline = (
    flown.groupby("carrier", observed=True)["dep_delay"]
    .agg(flights="size", mean="mean", median="median", late=lambda delay: (delay >= 15).mean())
    .join(airlines.set_index("carrier")["name"])
    .sort_values("mean", ascending=False)
    .set_index("name")
)
by_airline.to_csv("by_airline.csv")
by_airline.round({"mean": 1, "median": 0, "late": 3})

# %% Pivot: the hour of the day against the month
flown["hour"] = flown["scheduled"].dt.hour
flown["month"] = flown["scheduled"].dt.month
grid = flown.pivot_table(index="month", columns="hour", values="dep_delay", aggfunc="mean")
figure, axes = plt.subplots(figsize=(9, 4.6), layout="constrained")
mesh = axes.imshow(grid.loc[:, 6:22], aspect="auto", cmap="YlOrRd", vmin=0, vmax=50)
axes.set_xticks(range(17), [f"{hour}:00" for hour in range(6, 23)], rotation=45, ha="right")
axes.set_yticks(range(12), "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())  # noqa: SIM905
axes.set(title="Mean departure delay at JFK, 2013", xlabel="scheduled hour (local time)")
figure.colorbar(mesh, ax=axes, label="minutes")
plt.show()
worst_month, worst_hour = grid.loc[:, 6:22].stack().idxmax()
print(f"worst cell: month {worst_month}, {worst_hour}:00, {grid.loc[worst_month, worst_hour]:.1f} minutes on average")

# %% Join: the weather of the hour of departure
weather["hour_utc"] = pd.to_datetime(weather["time_hour"], utc=True)
seen = weather[["hour_utc", "temp", "wind_speed", "precip", "visib", "pressure"]].drop_duplicates("hour_utc")
joined = flown.merge(seen, on="hour_utc", how="left", validate="many_to_one")
known = joined["visib"].notna()
print(f"{known.mean():.2%} of the flown departures found their hour's weather")
view = pd.cut(joined["visib"], [-0.01, 1, 3, 6, 9.9, 10], labels=["under 1", "1-3", "3-6", "6-10", "10 (clear)"])
rain = joined["precip"] > 0
by_view = joined.groupby([view, rain], observed=True)["dep_delay"].agg(["size", "mean"]).unstack()
by_view.rename(columns={False: "dry", True: "wet"}).round(1)

# %% Plot: what the weather does
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
by_view["mean"].rename(columns={False: "dry", True: "wet"}).plot.bar(ax=left, color=["#d9a441", "#3b6ea5"], width=0.75)
left.set(title="by visibility", xlabel="visibility in miles", ylabel="mean departure delay, minutes")
left.tick_params(axis="x", rotation=0)
left.set_ylim(0, 38)
left.legend(title=None, frameon=False, ncols=2, loc="upper left")
wind = pd.cut(
    joined["wind_speed"], [-1, 5, 10, 15, 20, 25, 50], labels=["0-5", "5-10", "10-15", "15-20", "20-25", ">25"]
)
joined.groupby(wind, observed=True)["dep_delay"].mean().plot.bar(ax=right, color="#6a8f5f", width=0.75)
right.set(title="by wind", xlabel="wind in miles an hour")
right.tick_params(axis="x", rotation=0)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% Days: the storms of the year
daily = joined.groupby(joined["scheduled"].dt.date)["dep_delay"].mean()
daily.index = pd.to_datetime(daily.index)
worst_days = daily.nlargest(5)
figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
axes.plot(daily.index, daily, color="#b9c4cf", linewidth=0.8, label="day")
axes.plot(daily.index, daily.rolling(14, center=True).mean(), color="#1f4e79", linewidth=2, label="two weeks")
for day, minutes in worst_days.items():
    axes.annotate(f"{day:%-d %b}", (day, minutes), ha="center", va="bottom", fontsize=8)
axes.set(title="Mean departure delay by day", ylabel="minutes", ylim=(-10, worst_days.max() * 1.1))
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
worst_days.round(1).to_frame("mean delay")

# %% Model: one row an hour, least squares
hourly = (
    joined.dropna(subset=["temp", "wind_speed", "precip", "visib", "pressure"])
    .groupby("hour_utc")
    .agg(
        delay=("dep_delay", "mean"),
        departures=("dep_delay", "size"),
        hour=("hour", "first"),
        month=("month", "first"),
        day=("scheduled", lambda times: times.iloc[0].day),
        wind=("wind_speed", "first"),
        precip=("precip", "first"),
        visib=("visib", "first"),
        pressure=("pressure", "first"),
    )
)
hourly = hourly[(hourly["hour"] >= 6) & (hourly["departures"] >= 5)]
features = pd.DataFrame(
    {
        "intercept": 1.0,
        "hours since 6:00": hourly["hour"] - 6,
        "wind, per 10 mph": hourly["wind"] / 10,
        "rain or snow (yes)": (hourly["precip"] > 0).astype(float),
        "miles of view lost": 10 - hourly["visib"],
        "low pressure, per 10 hPa": (1020 - hourly["pressure"]) / 10,
        "June or July": hourly["month"].isin([6, 7]).astype(float),
        "December": (hourly["month"] == 12).astype(float),
    }
)
training = hourly["day"] <= 21
coefficients, _, rank, _ = np.linalg.lstsq(features[training], hourly.loc[training, "delay"], rcond=None)
model = pd.Series(coefficients, index=features.columns, name="minutes")
print(f"{int(training.sum()):,} hours to learn from, {int((~training).sum()):,} to judge by, rank {rank}")
model.round(2).to_frame()

# %% Evaluate: on days the model has not seen
predicted = features[~training] @ model
actual = hourly.loc[~training, "delay"]
error = actual - predicted
always_mean = actual - hourly.loc[training, "delay"].mean()
r_squared = 1 - (error**2).sum() / (always_mean**2).sum()
mean_error, mean_error_without = error.abs().mean(), always_mean.abs().mean()
print(
    f"R squared {r_squared:.3f}; mean absolute error {mean_error:.2f} minutes, {mean_error_without:.2f} without a model"
)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.scatter(predicted, actual, s=6, alpha=0.35, color="#1f4e79", linewidths=0)
left.plot([-10, 60], [-10, 60], color="#b03a2e", linewidth=1, label="prediction = outcome")
left.legend(frameon=False, loc="upper left")
left.set(title="unseen hours", xlabel="predicted delay, minutes", ylabel="actual delay, minutes")
left.set(xlim=(-10, 60), ylim=(-15, 160))
order = np.argsort(predicted.to_numpy())
tenths = [actual.iloc[part].mean() for part in np.array_split(order, 10)]
means = [predicted.iloc[part].mean() for part in np.array_split(order, 10)]
right.plot(means, tenths, marker="o", color="#1f4e79")
right.plot([0, 35], [0, 35], color="#b03a2e", linewidth=1)
right.set(title="the same in tenths", xlabel="mean prediction, minutes", ylabel="mean delay, minutes")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% Write: results as files
import json  # noqa: E402
from pathlib import Path  # noqa: E402

results = Path("results")
results.mkdir(exist_ok=True)
model.to_csv(results / "model.csv", header=True, index_label="feature", float_format="%.10f")
predictions = pd.DataFrame({"actual": actual, "predicted": predicted})
predictions.to_csv(results / "predictions.csv", float_format="%.6f")
summary = {
    "scheduled": len(flights),
    "cancelled": int(cancelled.sum()),
    "mean_delay": float(flown["dep_delay"].mean()),
    "latest_airline": str(by_airline.index[0]),
    "worst_month": int(worst_month),
    "worst_hour": int(worst_hour),
    "worst_day": f"{worst_days.index[0]:%Y-%m-%d}",
    "r_squared": float(r_squared),
    "mean_error": float(mean_error),
    "mean_error_without_model": float(mean_error_without),
}
(results / "summary.json").write_text(json.dumps(summary, indent=2))
for path in sorted(results.iterdir()):
    print(f"{path}: {path.stat().st_size:,} bytes")

# %% Read back: the files say what the globals say
model_again = pd.read_csv(results / "model.csv", index_col="feature")["minutes"]
predictions_again = pd.read_csv(results / "predictions.csv", index_col="hour_utc")
flown_again = pd.read_csv("flown.csv.gz", usecols=["dep_delay"])
assert np.allclose(model_again, model, atol=1e-9)
assert np.isclose((predictions_again["actual"] - predictions_again["predicted"]).abs().mean(), mean_error, atol=1e-5)
assert flown_again["dep_delay"].mean() == flown["dep_delay"].mean()
strongest = model.drop("intercept").abs().sort_values(ascending=False)
print("the files agree with the session's globals; effects by size:", ", ".join(strongest.index[:4]))
