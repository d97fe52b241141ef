// A small curve over time, as a drawing of its own: a library for curves would weigh more than the page of a session.

const WIDTH = 600;
const HEIGHT = 36;
/** Points drawn of a curve: of more, the highest of each part. */
const MOST_POINTS = 300;

export type Point = readonly [time: number, value: number];

export interface CurveProps { name: string; points: readonly Point[]; from: number; to: number; most?: number; say: (value: number) => string }

export function Curve({ name, points, from, to, most = 0, say }: CurveProps) {
  const top = Math.max(most, ...points.map(([, value]) => value)) || 1;
  const place = ([time, value]: Point) =>
    `${(((time - from) / Math.max(to - from, 1)) * WIDTH).toFixed(1)},${(HEIGHT - 2 - (value / top) * (HEIGHT - 4)).toFixed(1)}`;
  const drawn = thin(points).map(place);
  const last = points.at(-1);
  const now = last ? say(last[1]) : "nothing yet";
  const highest = points.length ? say(Math.max(...points.map(([, value]) => value))) : "";
  return (
    <figure class="curve">
      <figcaption>{name} <b>{now}</b>{highest && <span class="hint"> at most {highest}</span>}</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${name}: ${now}${highest && `, at most ${highest}`}`}>
        {drawn.length > 1 && <polyline points={drawn.join(" ")} />}
        {drawn.length === 1 && <circle cx={drawn[0]!.split(",")[0]} cy={drawn[0]!.split(",")[1]} r="2" />}
      </svg>
    </figure>
  );
}

/** Of many points the highest of each part, so that no peak is lost. */
function thin(points: readonly Point[]): readonly Point[] {
  if (points.length <= MOST_POINTS) return points;
  const each = points.length / MOST_POINTS;
  return Array.from({ length: MOST_POINTS }, (_, part) =>
    points.slice(Math.floor(part * each), Math.floor((part + 1) * each)).reduce((one, other) => (other[1] > one[1] ? other : one)));
}
