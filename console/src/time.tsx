// Times as people say them, with the exact one on hover; sizes, durations and counts.

import { useEffect, useState } from "preact/hooks";

const UNITS: [Intl.RelativeTimeFormatUnit, number][] =
  [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

export function relative(time: string, now: number): string {
  const seconds = (Date.parse(time) - now) / 1000;
  const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? ["second", 1];
  return Math.abs(seconds) < 1 ? "now" : RELATIVE.format(Math.trunc(seconds / size), unit);
}

/** The time, again every few seconds. */
export function useNow(seconds: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return now;
}

export function When({ time, now }: { time: string; now: number }) {
  return <time dateTime={time} title={new Date(time).toLocaleString()}>{relative(time, now)}</time>;
}

export function duration(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (seconds < 1) return `${Math.round(milliseconds)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

export function size(bytes: number): string {
  const units = ["B", "KB", "MB", "GB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1000; unit += 1; }
  return `${bytes < 10 && unit > 0 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

export function count(number: number, what: string): string {
  return `${number.toLocaleString()} ${what}${number === 1 ? "" : "s"}`;
}
