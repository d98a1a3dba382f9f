declare module "vectors/*" {
  const text: string;
  export default text;
}
