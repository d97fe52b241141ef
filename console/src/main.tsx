import { render } from "preact";
import { Console } from "./console";
import "./style.css";

render(<Console />, document.getElementById("app")!);
